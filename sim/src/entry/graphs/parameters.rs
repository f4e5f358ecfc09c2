//! Node parameters, converted from the structures of the interface.

use std::ffi::c_void;

use crate::abi::Input;
use crate::abi::code::Result;
use crate::abi::structs::{KernelNodeParameters, Memcpy3d, MemsetNodeParameters};
use crate::entry::memory::copy::three;
use crate::graphs::node::Kind;
use crate::memory::copy::Fill;
use crate::memory::table::{self, Submission};
use crate::objects::launch::{self, Shape};
use crate::objects::library;

impl Kind {
    pub(crate) fn from_kernel(parameters: &KernelNodeParameters) -> Result<Self> {
        let KernelNodeParameters { blocks, threads, dynamic_shared, .. } = *parameters;
        let handle = if parameters.function == 0 { parameters.kernel } else { parameters.function };
        // A node may name a kernel; it is its function that is kept.
        let handle = library::kernel(handle).and_then(|k| k.function()).unwrap_or(handle);
        let shape = Shape { blocks, threads, dynamic_shared, cooperative: false, cluster: [1; 3] };
        let values: Input<*const c_void> = parameters.values;
        launch::prepare(handle, shape, values, parameters.extra).map(Kind::Kernel)
    }

    pub(crate) fn from_copy(raw: Memcpy3d) -> Result<Self> {
        let copy = three(&raw)?;
        copy.check(Submission::Node)?;
        Ok(Kind::Copy(Box::new(raw), copy))
    }

    pub(crate) fn from_fill(m: &MemsetNodeParameters) -> Result<Self> {
        let fill = Fill {
            at: m.at,
            pitch: m.pitch,
            value: u64::from(m.value),
            element: m.element as usize,
            width: m.width,
            height: m.height,
        };
        fill.check(Submission::Node, &table::read())?;
        Ok(Kind::Fill(fill))
    }
}

impl MemsetNodeParameters {
    pub(crate) fn new(fill: &Fill) -> Self {
        let (element, value) = (fill.element as u32, fill.value as u32);
        Self { at: fill.at, pitch: fill.pitch, value, element, width: fill.width, height: fill.height }
    }
}
