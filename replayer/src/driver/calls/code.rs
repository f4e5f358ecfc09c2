//! Modules, functions, launches, textures.

use super::stream::twin;
use crate::driver::{Driver, Failure, id, result};
use std::ffi::{CStr, c_char};
use trace::Function;
use trace::api::enums::CUfunction_attribute;
use trace::api::roles::Role;
use trace::api::structs::CUDA_ARRAY3D_DESCRIPTOR;
use trace::api::types::{Form, Kind};
use trace::model::stream::StreamHandle;

/// A launch of a live function, or a kernel in its place.
pub(crate) struct Launch {
    pub function: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Where the addresses of the values of its parameters stand.
    pub arguments: u64,
}

/// More parameters than a function can have.
const MOST: usize = 1 << 16;

impl Driver {
    /// # Safety
    /// The image is whole, as its headers or its ending zero tell.
    pub(crate) unsafe fn load_module(&self, image: &[u8]) -> Result<u64, Failure> {
        // SAFETY: an output word; forwarded from the caller.
        unsafe { self.output_of("cuModuleLoadData", |module| [module, image.as_ptr() as u64]) }
    }

    pub(crate) fn unload_module(&self, module: u64) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask("cuModuleUnload", &[module]) }
    }

    pub(crate) fn function_of_module(&self, module: u64, name: &CStr) -> Result<u64, Failure> {
        // SAFETY: an output word, a handle, a name with its NUL.
        unsafe { self.output_of("cuModuleGetFunction", |function| [function, module, name.as_ptr() as u64]) }
    }

    /// Whether a module has what a function of the driver's finds by name; none if the function finds nothing
    /// so.
    pub(crate) fn module_has(&self, finder: &'static Function, module: u64, name: &CStr) -> Option<bool> {
        let mut unused = 0u64;
        let scratch = &raw mut unused as u64;
        let word = |role: Role, form| match (role, form) {
            (Role::Out(_), _) => Some(scratch),
            (_, Form::Handle(Kind::Module)) => Some(module),
            (Role::Text, _) => Some(name.as_ptr() as u64),
            _ => None,
        };
        finder.handle(Kind::Module).filter(|_| finder.params.iter().any(|param| matches!(param.role, Role::Text)))?;
        let words: Vec<u64> =
            finder.params.iter().map(|param| word(param.role, param.ty.form)).collect::<Option<_>>()?;
        // SAFETY: output words, a handle, a name with its NUL, as the table describes the parameters.
        Some(unsafe { self.ask(finder.name, &words) }.is_ok())
    }

    /// The function of a live kernel; an error if it is a function itself.
    pub(crate) fn function_of_kernel(&self, kernel: u64) -> Result<u64, Failure> {
        // SAFETY: an output word and a handle.
        unsafe { self.output_of("cuKernelGetFunction", |function| [function, kernel]) }
    }

    pub(crate) fn function_attribute(&self, function: u64, which: CUfunction_attribute) -> Result<i32, Failure> {
        // SAFETY: an output word, a plain value and a handle.
        unsafe { self.output_of("cuFuncGetAttribute", |value| [value, which.0.into(), function]) }
    }

    /// How many blocks of so many threads and bytes of dynamic shared memory a multiprocessor can have at a
    /// time.
    pub(crate) fn active_blocks(&self, function: u64, threads: u32, shared: u32) -> Result<i32, Failure> {
        let name = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
        // SAFETY: an output word, a handle, plain values.
        unsafe { self.output_of(name, |blocks| [blocks, function, threads.into(), shared.into()]) }
    }

    /// The name of a live function, or of a kernel in its place: which it is likely to be is asked for first.
    pub(crate) fn function_name(&self, function: u64, is_kernel: bool) -> Option<String> {
        let mut names = ["cuFuncGetName", "cuKernelGetName"];
        names.rotate_left(is_kernel.into());
        names.into_iter().find_map(|name| {
            // SAFETY: an output word and a handle.
            let text: usize = unsafe { self.output_of(name, |text| [text, function]) }.ok()?;
            // SAFETY: the driver has just handed out a string of its own.
            (text != 0).then(|| unsafe { CStr::from_ptr(text as *const c_char) }.to_string_lossy().into_owned())
        })
    }

    /// Whether a live function, or a kernel, has these parameters at least: where it has, no question fails.
    pub(crate) fn has_parameters(&self, function: u64, is_kernel: bool, known: &[(usize, usize)]) -> bool {
        let name = if is_kernel { "cuKernelGetParamInfo" } else { "cuFuncGetParamInfo" };
        known.iter().enumerate().all(|(at, known)| self.parameter(name, function, at).is_ok_and(|told| told == *known))
    }

    /// Offset and size of each parameter of a live function, or of a kernel in its place. The driver tells by
    /// errors that it is a kernel, and that there are no more, which tools report.
    pub(crate) fn parameters(&self, function: u64) -> Result<Vec<(usize, usize)>, Failure> {
        match self.parameters_by("cuFuncGetParamInfo", function) {
            // How a CUkernel is answered.
            Err(Failure { code: Some(result::INVALID_HANDLE), .. }) => {
                self.parameters_by("cuKernelGetParamInfo", function)
            }
            told => told,
        }
    }

    fn parameters_by(&self, name: &'static str, function: u64) -> Result<Vec<(usize, usize)>, Failure> {
        let mut found = Vec::new();
        loop {
            match self.parameter(name, function, found.len()) {
                Ok(parameter) if found.len() < MOST => found.push(parameter),
                // An ordinal out of range is how the list ends.
                Ok(_) | Err(Failure { code: Some(result::INVALID_VALUE), .. }) => return Ok(found),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn parameter(&self, name: &'static str, function: u64, at: usize) -> Result<(usize, usize), Failure> {
        let (mut offset, mut size) = (0usize, 0usize);
        let words = [function, at as u64, &raw mut offset as u64, &raw mut size as u64];
        // SAFETY: a handle, an ordinal, two output words.
        unsafe { self.ask(name, &words) }.map(|()| (offset, size))
    }

    /// # Safety
    /// There is an argument for each parameter of the function, as long as that.
    pub(crate) unsafe fn launch(&self, launch: &Launch, stream: StreamHandle) -> Result<(), Failure> {
        let Launch { function, grid, block, shared, arguments } = launch;
        let [gx, gy, gz, bx, by, bz, shared] =
            [grid[0], grid[1], grid[2], block[0], block[1], block[2], *shared].map(u64::from);
        let name = twin(stream, "cuLaunchKernel", "cuLaunchKernel_ptsz");
        let words = [*function, gx, gy, gz, bx, by, bz, shared, stream.handle, *arguments, 0];
        // SAFETY: forwarded from the caller; the arguments outlive the call.
        unsafe { self.ask(name, &words) }
    }

    /// As [`launch`](Driver::launch), with so many CUlaunchAttributes that lie at an address.
    ///
    /// # Safety
    /// As for that, and the attributes are there.
    pub(crate) unsafe fn launch_with(
        &self,
        launch: &Launch,
        attributes: (u64, u64),
        stream: StreamHandle,
    ) -> Result<(), Failure> {
        let Launch { function, grid, block, shared, arguments } = launch;
        // CUlaunchConfig: seven dimensions, padding, the stream, the attributes and how many there are.
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let config = [
            pair(grid[0], grid[1]),
            pair(grid[2], block[0]),
            pair(block[1], block[2]),
            (*shared).into(),
            stream.handle,
            attributes.0,
            attributes.1,
        ];
        let name = twin(stream, "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz");
        // SAFETY: forwarded from the caller; configuration and arguments outlive the call.
        unsafe { self.ask(name, &[config.as_ptr() as u64, *function, *arguments, 0]) }
    }

    pub(crate) fn array_descriptor(&self, array: u64) -> Result<CUDA_ARRAY3D_DESCRIPTOR, Failure> {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut about = unsafe { std::mem::zeroed::<CUDA_ARRAY3D_DESCRIPTOR>() };
        // SAFETY: a struct of ours to be filled, and a handle.
        unsafe { self.ask("cuArray3DGetDescriptor_v2", &[&raw mut about as u64, array]) }?;
        Ok(about)
    }

    /// Of a texture or a surface.
    pub(crate) fn destroy_object(&self, kind: Kind, object: u64) -> Result<(), Failure> {
        let name = if kind == Kind::Texture { "cuTexObjectDestroy" } else { "cuSurfObjectDestroy" };
        // SAFETY: no pointers.
        unsafe { self.ask(name, &[object]) }
    }

    /// Of a function and its earlier form the one that the driver has.
    pub(super) fn newest(&self, newer: &'static str, older: &'static str) -> &'static str {
        if trace::api::by_name(newer).is_some_and(|function| self.exports(id(function))) { newer } else { older }
    }
}
