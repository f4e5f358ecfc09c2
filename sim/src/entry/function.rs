//! Functions of modules.

use std::ffi::c_char;

use super::declare::entries;
use crate::abi::code::Code;
use crate::abi::{Handle, Out};
use crate::objects::{library, module};

entries! {
    fn cuFuncGetAttribute(value: Out<i32>, attribute: u32, hfunction: Handle) {
        let function = library::function(hfunction)?;
        value.set(function.settings.get(function.kernel(), attribute)?)
    }

    fn cuFuncSetAttribute(hfunction: Handle, attribute: u32, value: i32) {
        let function = library::function(hfunction)?;
        function.settings.set(function.kernel(), attribute, value)
    }

    fn cuFuncSetCacheConfig(hfunction: Handle, _config: u32) {
        library::function(hfunction).map(drop)
    }

    fn cuFuncSetSharedMemConfig(hfunction: Handle, _config: u32) {
        library::function(hfunction).map(drop)
    }

    fn cuFuncGetModule(hmodule: Out<Handle>, hfunction: Handle) {
        hmodule.set(module::function(hfunction)?.module)
    }

    fn cuFuncGetName(name: Out<*const c_char>, hfunction: Handle) {
        name.set(module::function(hfunction)?.name.as_ptr())
    }

    /// Not for a CUkernel: that is an invalid handle here, as with the driver.
    fn cuFuncGetParamInfo(hfunction: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        let function = module::function(hfunction)?;
        let parameter = function.kernel().parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        offset.set(parameter.offset)?;
        size.set_if(parameter.size);
        Ok(())
    }

    fn cuFuncGetParamCount(hfunction: Handle, count: Out<usize>) {
        count.set(module::function(hfunction)?.kernel().parameters.len())
    }

    fn cuFuncIsLoaded(state: Out<u32>, hfunction: Handle) {
        state.set(u32::from(module::function(hfunction)?.loaded()))
    }

    fn cuFuncLoad(hfunction: Handle) {
        module::function(hfunction)?.load();
        Ok(())
    }
}
