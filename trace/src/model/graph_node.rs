//! Graph nodes that allocate or free memory.

use crate::api::Function;
use crate::api::attributes::GRAPH_NODES;
use crate::api::roles::{Field, Role};
use crate::api::structs::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS_v2, CUDA_MEM_FREE_NODE_PARAMS, CUgraphNodeParams,
    CUmemLocation, CUmemPoolProps,
};
use crate::api::types::{Form, Typed};
use crate::read::call::{Call, When};
use std::mem::offset_of;

/// The effect of one node on memory when its graph runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// The node allocates memory.
    Allocates {
        /// Address, fixed when the node was added.
        at: u64,
        /// Size of the memory.
        bytes: u64,
        /// Ordinal of the device.
        device: i32,
    },
    /// The node frees memory.
    Frees {
        /// Address of the memory.
        at: u64,
    },
}

/// What the node does to memory that a call has added to a graph.
pub(super) fn added(call: &Call, function: &Function) -> Option<Node> {
    if let Some(at) = function.params.iter().position(|param| matches!(param.ty.form, Form::Address)) {
        return Some(Node::Frees { at: call.argument_of(at)? });
    }
    let described = |(at, param): (usize, &Field)| match (param.role, param.ty.form) {
        (Role::InOut(_), Form::Pointer(to)) if matches!(to.form, Form::Struct(_)) => Some((call.argument_of(at)?, to)),
        _ => None,
    };
    let (address, ty) = function.params.iter().enumerate().find_map(described)?;
    let bytes = |at: u64, len: u64| call.memory(When::Return, at, len);
    let long = |offset: usize, address: u64| {
        let found = bytes(address.checked_add(offset as u64)?, 8)?;
        Some(u64::from_le_bytes(found[..].try_into().ok()?))
    };
    let (address, ty) = match ty.name == CUgraphNodeParams::TYPE.name {
        true => {
            let kind = long(offset_of!(CUgraphNodeParams, r#type), address)? as u32;
            let (_, ty) = GRAPH_NODES.iter().find(|(of, _)| *of == kind)?;
            (address.checked_add(offset_of!(CUgraphNodeParams, params) as u64)?, *ty)
        }
        false => (address, ty),
    };
    if ty.name == CUDA_MEM_FREE_NODE_PARAMS::TYPE.name {
        return Some(Node::Frees { at: long(offset_of!(CUDA_MEM_FREE_NODE_PARAMS, dptr), address)? });
    }
    if ![CUDA_MEM_ALLOC_NODE_PARAMS::TYPE.name, CUDA_MEM_ALLOC_NODE_PARAMS_v2::TYPE.name].contains(&ty.name) {
        return None;
    }
    let location = offset_of!(CUDA_MEM_ALLOC_NODE_PARAMS_v2, poolProps) + offset_of!(CUmemPoolProps, location);
    // Type and number, 4 bytes each.
    let device = long(location, address)? >> (8 * offset_of!(CUmemLocation, id));
    Some(Node::Allocates {
        at: long(offset_of!(CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr), address)?,
        bytes: long(offset_of!(CUDA_MEM_ALLOC_NODE_PARAMS_v2, bytesize), address)?,
        device: device as i32,
    })
}
