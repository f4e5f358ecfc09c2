//! Modules.

use std::ffi::{c_char, c_void};

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{DevicePointer, Handle, Input, Out};
use crate::objects::module;
use crate::ptx::image;
use crate::ptx::jit::Options;
use crate::streams::context;

/// The texts of a module's file.
pub(super) fn file(path: Input<c_char>) -> Result<Vec<String>> {
    let bytes = std::fs::read(path.text()?).map_err(|_| Code::FILE_NOT_FOUND)?;
    image::texts_in(&bytes)
}

fn load(made: Out<Handle>, texts: impl FnOnce() -> Result<Vec<String>>, options: Options) -> Result {
    context::usable()?;
    if made.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    made.set(module::load_current(&options.compile(&texts()?)?)?)
}

entries! {
    fn cuModuleLoad(made: Out<Handle>, path: Input<c_char>) {
        load(made, || file(path), Options::NONE)
    }

    fn cuModuleLoadData(made: Out<Handle>, data: *const u8) {
        load(made, || image::texts_at(data), Options::NONE)
    }

    fn cuModuleLoadDataEx(
        made: Out<Handle>, data: *const u8, count: u32, options: Input<u32>, values: Out<*mut c_void>,
    ) {
        load(made, || image::texts_at(data), Options::read(count, options, values)?)
    }

    fn cuModuleLoadFatBinary(made: Out<Handle>, data: *const u8) {
        load(made, || image::texts_at(data), Options::NONE)
    }

    /// The PTX that is read here has no references to textures and surfaces.
    fn cuModuleGetTexRef(_found: Out<Handle>, hmodule: Handle, _name: Input<c_char>) {
        module::find(hmodule)?;
        Err(Code::NOT_FOUND)
    }

    fn cuModuleGetSurfRef(_found: Out<Handle>, hmodule: Handle, _name: Input<c_char>) {
        module::find(hmodule)?;
        Err(Code::NOT_FOUND)
    }

    fn cuModuleUnload(hmodule: Handle) {
        module::unload(hmodule)
    }

    /// Lazy, as is the driver's default.
    fn cuModuleGetLoadingMode(mode: Out<u32>) {
        mode.set(2)
    }

    fn cuModuleGetFunction(function: Out<Handle>, hmodule: Handle, name: Input<c_char>) {
        let (module, name) = (module::find(hmodule)?, name.text()?);
        function.set(module.function_by_name(&name)?)
    }

    fn cuModuleGetFunctionCount(count: Out<u32>, hmodule: Handle) {
        count.set(module::find(hmodule)?.program.kernels.len() as u32)
    }

    fn cuModuleEnumerateFunctions(functions: Out<Handle>, count: u32, hmodule: Handle) {
        let module = module::find(hmodule)?;
        if functions.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for index in 0..module.program.kernels.len().min(count as usize) {
            functions.set_at(index, module.function(index)?);
        }
        Ok(())
    }

    fn cuModuleGetGlobal_v2(at: Out<DevicePointer>, bytes: Out<usize>, hmodule: Handle, name: Input<c_char>) {
        let (address, size) = module::find(hmodule)?.variable(&name.text()?)?;
        at.set_if(address);
        bytes.set_if(size);
        Ok(())
    }
}
