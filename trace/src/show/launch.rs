//! The kernel that a call launches, with its grid and block.

use crate::api::effect::Work;
use crate::api::roles::Class;
use crate::api::structs::{CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig};
use crate::api::types::{Form, Kind, Typed};
use crate::model::objects::Objects;
use crate::read::call::Call;
use crate::read::call::When;
use std::hash::{Hash, Hasher};
use std::mem::offset_of;

/// The blocks, the threads per block, and the bytes of dynamic shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory for each block.
    pub shared: u32,
}

impl Hash for Shape {
    /// In four steps, not one for each of the seven numbers: every launch is looked up by its shape.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let ([a, b, c], [d, e, f]) = (self.grid.map(u64::from), self.block.map(u64::from));
        for both in [a << 32 | b, c << 32 | d, e << 32 | f, self.shared.into()] {
            hasher.write_u64(both);
        }
    }
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

/// Whether the blocks of a launch may wait for each other. None of calls that launch no kernel themselves or one
/// on each of several devices, and where the attributes of the launch were not recorded.
pub fn is_cooperative(call: &Call) -> Option<bool> {
    let function = call.function().filter(|function| function.work() == Some(Work::Kernel))?;
    if function.param("config").is_some() { cooperative_attribute(call) } else { Some(function.is_cooperative()) }
}

/// By an attribute of the launch.
fn cooperative_attribute(call: &Call) -> Option<bool> {
    const WORD: usize = offset_of!(CUlaunchAttribute, value);
    let config = call.memory(When::Entry, call.argument("config")?, CUlaunchConfig::TYPE.size.into())?;
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let count = word(&config, offset_of!(CUlaunchConfig, numAttrs))?;
    if count == 0 {
        return Some(false);
    }
    let at = offset_of!(CUlaunchConfig, attrs);
    let attributes = u64::from_le_bytes(config.get(at..at + 8)?.try_into().ok()?);
    let size = CUlaunchAttribute::TYPE.size;
    let all = call.memory(When::Entry, attributes, u64::from(count) * u64::from(size))?;
    let mut ids = all.chunks_exact(size as usize).map(|one| (word(one, 0), word(one, WORD)));
    let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE.0;
    Some(ids.any(|(of, value)| of == Some(id) && value != Some(0)))
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
