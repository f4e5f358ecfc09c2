//! What a call launches, and in which shape.

use crate::api::roles::Class;
use crate::api::structs::CUlaunchConfig;
use crate::api::types::{Form, Kind, Typed};
use crate::call::Call;
use crate::call::When;
use crate::objects::Objects;

/// Blocks, threads of a block, bytes of dynamic shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

/// None where a launch has its shape from calls before it.
pub fn shape(call: &Call) -> Option<Shape> {
    const NAMES: [&str; 7] =
        ["gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes"];
    let mut values = [0; 7];
    match call.argument("config") {
        // The configuration begins with the same seven numbers.
        Some(config) => {
            let bytes = call.memory(When::Entry, config, CUlaunchConfig::TYPE.size.into())?;
            for (value, word) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                *value = u32::from_le_bytes(word.try_into().expect("4 bytes"));
            }
        }
        None => {
            for (value, name) in values.iter_mut().zip(NAMES) {
                *value = call.argument(name)? as u32;
            }
        }
    }
    let [gx, gy, gz, bx, by, bz, shared] = values;
    Some(Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared })
}

/// The kernel that a call launches.
pub fn kernel<'t>(call: &Call<'t>) -> Option<&'t str> {
    call.named_kernel().map(|kernel| kernel.name.as_str())
}

/// The kernel that a launch names: of one that has not returned, or whose kernel has no parameters, the trace
/// may hold no more than the call that looked it up.
pub fn launched(call: &Call, objects: &Objects) -> Option<String> {
    let function = call.function().filter(|function| function.class == Class::launch)?;
    if let Some(kernel) = call.named_kernel() {
        return Some(kernel.name.clone());
    }
    let handle = function.params.iter().find(|param| matches!(param.ty.form, Form::Handle(Kind::Function)))?;
    let handle = call.argument(handle.name)?;
    let named = [Kind::Function, Kind::Kernel].into_iter().find_map(|kind| objects.object(kind, handle)?.1);
    named.map(str::to_owned)
}
