//! Logical endpoints, cliques of a fabric, and copies over it.

use super::super::{enums::*, types::*};
use super::*;

/// The first of a range of endpoints, or one of them.
pub type CUlogicalEndpointId = u32;

/// What an endpoint is exported as.
pub const ENDPOINT_HANDLES: &[(u32, &Type)] = &[(
    CUlogicalEndpointIpcHandleType::CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC.0,
    CUlogicalEndpointFabricHandle::TYPE,
)];

const OPERANDS: &[(u32, &Type)] = {
    use CUfabricCpyOperandType as O;
    &[
        (O::CU_FABRIC_COPY_OPERAND_TYPE_POINTER.0, CUfabricCpyOperand_op_ptr::TYPE),
        (O::CU_FABRIC_COPY_OPERAND_TYPE_LOGICAL_ENDPOINT.0, CUfabricCpyOperand_op_le::TYPE),
    ]
};

const ENDS: &[(u32, &Type)] = {
    use CUlogicalEndpointType as E;
    &[
        (E::CU_LOGICAL_ENDPOINT_TYPE_UNICAST.0, CUlogicalEndpointProp_unicast::TYPE),
        (E::CU_LOGICAL_ENDPOINT_TYPE_MULTICAST.0, CUlogicalEndpointProp_multicast::TYPE),
    ]
};

structs! {
    CUcliqueInfo {
        r#type: CUcliqueType,
        id: u32,
    }
    CUlogicalEndpointFabricHandle {
        data: [u8; 64],
    }
    CUlogicalEndpointProp_unicast {
        device: CUdevice,
    }
    CUlogicalEndpointProp_multicast {
        numDevices: u32,
    }
    CUlogicalEndpointProp {
        r#type: CUlogicalEndpointType,
        end: [u32; 1] = Union(r#type, ENDS),
        size: u64,
        ipcHandleTypes: u32 = CUlogicalEndpointIpcHandleType::BITS,
        flags: u32 = CUlogicalEndpointFlag::BITS,
    }
    CUfabricCpyOperand_op_ptr {
        ptr: CUdeviceptr,
        locHint: CUmemLocation,
    }
    CUfabricCpyOperand_op_le {
        id: CUlogicalEndpointId,
        offset: u64,
    }
    CUfabricCpyOperand {
        r#type: CUfabricCpyOperandType,
        op: [u64; 2] = Union(r#type, OPERANDS),
    }
    CUDA_FABRIC_COPY_BATCH_OP {
        src: CUfabricCpyOperand,
        dst: CUfabricCpyOperand,
        size: usize,
        flags: u32,
    }
}
