//! Libraries and kernels.

use std::ffi::{c_char, c_void};

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{DevicePointer, Handle, Input, Out};
use crate::base::device;
use crate::objects::{library, module};
use crate::ptx::image;
use crate::ptx::jit::Options;
use crate::streams::context;

fn load(made: Out<Handle>, texts: impl FnOnce() -> Result<Vec<String>>, options: Options) -> Result {
    if made.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    made.set(library::load(options.compile(&texts()?)?)?)
}

/// The variable of a library in the current context.
fn variable(hlibrary: Handle, name: &str) -> Result<(u64, usize)> {
    let module = library::find(hlibrary)?.module(&context::usable()?)?;
    module::find(module)?.variable(name)
}

entries! {
    fn cuLibraryLoadData(
        made: Out<Handle>, code: *const u8, names: Input<u32>, values: Out<*mut c_void>, count: u32,
        _options: Input<u32>, _option_values: Input<usize>, _option_count: u32,
    ) {
        load(made, || image::texts_at(code), Options::read(count, names, values)?)
    }

    fn cuLibraryLoadFromFile(
        made: Out<Handle>, path: Input<c_char>, names: Input<u32>, values: Out<*mut c_void>, count: u32,
        _options: Input<u32>, _option_values: Input<usize>, _option_count: u32,
    ) {
        load(made, || super::module::file(path), Options::read(count, names, values)?)
    }

    fn cuLibraryUnload(hlibrary: Handle) {
        library::unload(hlibrary)
    }

    fn cuLibraryGetKernel(kernel: Out<Handle>, hlibrary: Handle, name: Input<c_char>) {
        let (library, name) = (library::find(hlibrary)?, name.text()?);
        kernel.set(library.kernel_by_name(&name)?)
    }

    fn cuLibraryGetKernelCount(count: Out<u32>, hlibrary: Handle) {
        count.set(library::find(hlibrary)?.kernel_count() as u32)
    }

    fn cuLibraryEnumerateKernels(kernels: Out<Handle>, count: u32, hlibrary: Handle) {
        let library = library::find(hlibrary)?;
        if kernels.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for index in 0..library.kernel_count().min(count as usize) {
            kernels.set_at(index, library.kernel(index)?);
        }
        Ok(())
    }

    fn cuLibraryGetModule(found: Out<Handle>, hlibrary: Handle) {
        found.set(library::find(hlibrary)?.module(&context::usable()?)?)
    }

    fn cuLibraryGetGlobal(at: Out<DevicePointer>, bytes: Out<usize>, hlibrary: Handle, name: Input<c_char>) {
        let (address, size) = variable(hlibrary, &name.text()?)?;
        at.set_if(address);
        bytes.set_if(size);
        Ok(())
    }

    fn cuLibraryGetManaged(at: Out<DevicePointer>, bytes: Out<usize>, hlibrary: Handle, name: Input<c_char>) {
        let name = name.text()?;
        if !library::find(hlibrary)?.managed(&name) {
            return Err(Code::NOT_FOUND);
        }
        let (address, size) = variable(hlibrary, &name)?;
        at.set_if(address);
        bytes.set_if(size);
        Ok(())
    }

    fn cuKernelGetFunction(function: Out<Handle>, hkernel: Handle) {
        function.set(library::kernel(hkernel)?.function()?)
    }

    fn cuKernelGetLibrary(found: Out<Handle>, hkernel: Handle) {
        found.set(library::kernel(hkernel)?.library)
    }

    fn cuKernelGetName(name: Out<*const c_char>, hkernel: Handle) {
        name.set(library::kernel(hkernel)?.name.as_ptr())
    }

    fn cuKernelGetAttribute(value: Out<i32>, attribute: u32, hkernel: Handle, dev: i32) {
        device::check(dev)?;
        let kernel = library::kernel(hkernel)?;
        value.set(kernel.settings.get(kernel.code(), attribute)?)
    }

    fn cuKernelSetAttribute(attribute: u32, value: i32, hkernel: Handle, dev: i32) {
        device::check(dev)?;
        let kernel = library::kernel(hkernel)?;
        kernel.settings.set(kernel.code(), attribute, value)
    }

    fn cuKernelSetCacheConfig(hkernel: Handle, _config: u32, dev: i32) {
        device::check(dev)?;
        library::kernel(hkernel).map(drop)
    }

    fn cuKernelGetParamCount(hkernel: Handle, count: Out<usize>) {
        count.set(library::kernel(hkernel)?.code().parameters.len())
    }

    fn cuKernelGetParamInfo(hkernel: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        let kernel = library::kernel(hkernel)?;
        let parameter = kernel.code().parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        offset.set(parameter.offset)?;
        size.set_if(parameter.size);
        Ok(())
    }
}
