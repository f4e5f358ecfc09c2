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

const NAMES: [&str; 7] = ["gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes"];

/// None where a launch has its shape from calls before it.
pub fn shape(call: &Call) -> Option<Shape> {
    let mut values = [0; 7];
    match call.function()?.param(NAMES[0]) {
        // They follow each other.
        Some(first) => {
            let offset = call.function()?.params.get(first)?.offset as usize;
            for (at, value) in values.iter_mut().enumerate() {
                *value = call.word(offset / 8 + at) as u32;
            }
        }
        // The configuration begins with the same seven numbers.
        None => {
            let config = call.argument("config")?;
            let bytes = call.memory(When::Entry, config, CUlaunchConfig::TYPE.size.into())?;
            for (value, word) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                *value = u32::from_le_bytes(word.try_into().expect("4 bytes"));
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

#[cfg(test)]
mod tests {
    use super::NAMES;
    use crate::api;

    #[test]
    fn the_numbers_of_a_shape_follow_each_other() {
        let with = |function: &&api::Function| function.param(NAMES[0]).is_some();
        let functions: Vec<_> = api::FUNCTIONS.iter().filter(with).collect();
        assert!(functions.len() > 1);
        for function in functions {
            let first = function.param(NAMES[0]).expect("it has one");
            let names: Vec<&str> = function.params[first..].iter().take(7).map(|param| param.name).collect();
            assert_eq!(names, NAMES, "{}", function.name);
        }
    }
}
