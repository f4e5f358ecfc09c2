//! The reason of a refused launch, if the call alone or the program's device queries show it.

use super::walk::Step;
use std::collections::HashMap;
use trace::api::enums::{CUdevice_attribute, CUfunction_attribute, CUresult};
use trace::api::roles::{Class, Role};
use trace::api::types::{Enum, Form, Kind};
use trace::show::launch::shape;
use trace::{Call, Function};

/// The limits of a block, as the driver reported them to the program.
#[derive(Default)]
pub(crate) struct Limits {
    /// By device and attribute.
    told: HashMap<(i32, u32), u64>,
    /// Some kernel was allowed more shared memory than any has by itself; which, another handle may have
    /// said.
    is_raised: bool,
}

/// The most threads of a block on every device of compute capability 2.0 or later.
const THREADS: u64 = 1024;

impl Limits {
    /// Whether a call of this function may tell of one.
    pub(crate) fn may_concern(function: &Function) -> bool {
        let names = [CUdevice_attribute::ENUM, CUfunction_attribute::ENUM];
        matches!(function.class, Class::query | Class::state)
            && names.into_iter().any(|names| of_enum(function, names).is_some())
    }

    pub(crate) fn record_limits(&mut self, step: &Step) {
        let call = step.call;
        let classes = |function: &&Function| matches!(function.class, Class::query | Class::state);
        let Some(function) = step.function.filter(classes).filter(|_| call.succeeded()) else { return };
        let asked = |names| call.argument_of(of_enum(function, names)?).map(|attribute| attribute as u32);
        if let Some(attribute) = asked(CUdevice_attribute::ENUM) {
            let out = function.params.iter().position(|param| matches!(param.role, Role::Volatile(_)));
            let device = function.handle(Kind::Device).and_then(|at| call.argument_of(at));
            let told = out.and_then(|at| call.output_of(at)).map(|told| u64::from(told as u32));
            self.told.extend(device.zip(told).map(|(device, told)| ((device as i32, attribute), told)));
        }
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.0;
        self.is_raised |= function.class == Class::state && asked(CUfunction_attribute::ENUM) == Some(dynamic);
    }

    /// What the program was told of a device.
    pub(crate) fn limit_of(&self, device: i32, attribute: CUdevice_attribute) -> Option<u64> {
        self.told.get(&(device, attribute.0)).copied()
    }

    /// Of a launch that has failed; none where it is not certain.
    pub(crate) fn exceeded(&self, step: &Step) -> Option<String> {
        let call = step.call;
        let is_about_arguments = matches!(
            call.result.map(CUresult),
            Some(CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
        );
        let function = step.function.filter(|function| function.class == Class::launch && is_about_arguments)?;
        let shape = shape(call)?;
        let device = step.contexts().device(call.thread);
        let told = |attribute| self.limit_of(device, attribute);
        if shape.grid.contains(&0) || shape.block.contains(&0) {
            let what = if shape.grid.contains(&0) { "grid" } else { "block" };
            return Some(format!("a dimension of the {what} is 0"));
        }
        let threads = shape.block.iter().fold(1u64, |all, n| all.saturating_mul(u64::from(*n)));
        let most = told(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK).unwrap_or(THREADS);
        if threads > most {
            return Some(format!("{threads} threads in a block; the limit is {most}"));
        }
        let raised = told(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        let usual = told(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
        let shared = u64::from(shape.shared);
        if let Some(most) = raised.filter(|most| shared > *most) {
            return Some(format!("{shared} bytes of shared memory in a block; the limit is {most}"));
        }
        if let Some(most) = usual.filter(|most| shared > *most && !self.is_raised) {
            return Some(format!(
                "{shared} bytes of shared memory in a block; the limit is {most} unless the kernel raises it"
            ));
        }
        has_no_arguments(call, function)
    }
}

fn has_no_arguments(call: &Call, function: &Function) -> Option<String> {
    let given = function.params.iter().enumerate();
    let mut given = given.filter(|(_, param)| matches!(param.role, Role::Arguments(_) | Role::Extra));
    let is_given = given.any(|(at, _)| call.argument_of(at) != Some(0));
    let kernel = call.named_kernel().filter(|_| !is_given)?;
    let takes = kernel.params.as_ref().map_or(0, Vec::len);
    (takes > 0).then(|| format!("no arguments, but the kernel takes {takes}"))
}

pub(crate) fn of_enum(function: &Function, names: &'static Enum) -> Option<usize> {
    function.params.iter().position(|param| matches!(param.ty.form, Form::Enum(of) if of.name == names.name))
}
