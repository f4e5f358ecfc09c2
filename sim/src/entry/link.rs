//! The linker.

use std::ffi::{c_char, c_void};

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{Bytes, Handle, Input, Out};
use crate::ptx::jit::{self, Options};
use crate::streams::context;

fn create(count: u32, names: Input<u32>, values: Out<*mut c_void>, state: Out<Handle>) -> Result {
    context::usable()?;
    if state.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    state.set(jit::create(Options::read(count, names, values)?))
}

fn add_data(state: Handle, kind: u32, at: *const u8, length: usize) -> Result {
    if at.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    jit::find(state)?.add(kind, &Bytes { at, length }.to_vec())
}

fn add_file(state: Handle, kind: u32, path: Input<c_char>) -> Result {
    let bytes = std::fs::read(path.text()?).map_err(|_| Code::FILE_NOT_FOUND)?;
    jit::find(state)?.add(kind, &bytes)
}

entries! {
    fn cuLinkCreate(count: u32, names: Input<u32>, values: Out<*mut c_void>, state: Out<Handle>) {
        create(count, names, values, state)
    }

    fn cuLinkCreate_v2(count: u32, names: Input<u32>, values: Out<*mut c_void>, state: Out<Handle>) {
        create(count, names, values, state)
    }

    fn cuLinkAddData(
        state: Handle, kind: u32, data: *const u8, size: usize, _name: Input<c_char>,
        _count: u32, _names: Input<u32>, _values: Out<*mut c_void>,
    ) {
        add_data(state, kind, data, size)
    }

    fn cuLinkAddData_v2(
        state: Handle, kind: u32, data: *const u8, size: usize, _name: Input<c_char>,
        _count: u32, _names: Input<u32>, _values: Out<*mut c_void>,
    ) {
        add_data(state, kind, data, size)
    }

    fn cuLinkAddFile(
        state: Handle, kind: u32, path: Input<c_char>, _count: u32, _names: Input<u32>, _values: Out<*mut c_void>,
    ) {
        add_file(state, kind, path)
    }

    fn cuLinkAddFile_v2(
        state: Handle, kind: u32, path: Input<c_char>, _count: u32, _names: Input<u32>, _values: Out<*mut c_void>,
    ) {
        add_file(state, kind, path)
    }

    fn cuLinkComplete(state: Handle, image: Out<*const u8>, size: Out<usize>) {
        let (at, length) = jit::find(state)?.complete()?;
        image.set(at)?;
        size.set_if(length);
        Ok(())
    }

    fn cuLinkDestroy(state: Handle) {
        jit::destroy(state)
    }
}
