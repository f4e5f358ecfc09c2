//! The driver as a whole: start, versions, error texts.

use std::ffi::c_char;

use super::declare::entries;
use super::hidden;
use crate::abi::code::Code;
use crate::abi::{Input, Out};
use crate::base::state;
use crate::memory::reserve;

entries! {
    always cuInit(flags: u32) {
        state::init(flags, || {
            reserve::take_own();
            reserve::remember_mappings();
        })
    }

    always cuDriverGetVersion(version: Out<i32>) {
        version.set(crate::base::age::version())
    }

    always cuGetErrorName(error: u32, name: Out<*const c_char>) {
        let found = Code(error).name();
        name.set(found.map_or(std::ptr::null(), |n| n.as_ptr().cast()))?;
        found.map(drop).ok_or(Code::INVALID_VALUE)
    }

    always cuGetErrorString(error: u32, text: Out<*const c_char>) {
        let found = Code(error).text();
        text.set(found.map_or(std::ptr::null(), |t| t.as_ptr().cast()))?;
        found.map(drop).ok_or(Code::INVALID_VALUE)
    }

    /// None of NVIDIA's hidden tables is simulated.
    always cuGetExportTable(table: Out<*const u8>, id: Input<[u8; 16]>) {
        let found = id.get()? == hidden::ID;
        table.set(if found { (&raw const hidden::TABLE).cast() } else { std::ptr::null() })?;
        if found { Ok(()) } else { Err(Code::NOT_FOUND) }
    }

    fn cuProfilerStart() {
        Ok(())
    }

    fn cuProfilerStop() {
        Ok(())
    }
}
