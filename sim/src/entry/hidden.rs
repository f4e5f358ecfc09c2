//! A table of our own behind cuGetExportTable, which stands in for NVIDIA's that the runtimes use: no
//! exported function sees the code loaded and looked up through it.

use std::ffi::{c_char, c_void};

use crate::abi::code::Code;
use crate::abi::{DevicePointer, Handle, Input, Out};
use crate::base::registry::handle_of;
use crate::entry::declare::outcome;
use crate::memory::allocate as memory;
use crate::memory::table::Kind;
use crate::objects::module;
use crate::ptx::image;
use crate::streams::context;

/// What a client passes to cuGetExportTable.
pub(super) const ID: [u8; 16] = *b"simulated, ours.";

/// The table. Its size in bytes comes first, as in NVIDIA's.
#[repr(C)]
pub(super) struct Table {
    size: usize,
    load: extern "C" fn(Out<Handle>, *const c_void) -> Code,
    function: extern "C" fn(Out<Handle>, Handle, Input<c_char>) -> Code,
    allocate: extern "C" fn(Out<DevicePointer>, usize) -> Code,
}

pub(super) static TABLE: Table = Table { size: size_of::<Table>(), load, function, allocate };

/// Loads a fatbin wrapper.
extern "C" fn load(made: Out<Handle>, wrapper: *const c_void) -> Code {
    outcome(|| {
        let texts = image::texts_at(wrapper.cast())?;
        made.set(module::load_current(&crate::ptx::jit::Options::NONE.compile(&texts)?)?)
    })
}

extern "C" fn function(found: Out<Handle>, hmodule: Handle, name: Input<c_char>) -> Code {
    outcome(|| found.set(module::find(hmodule)?.function_by_name(&name.text()?)?))
}

extern "C" fn allocate(at: Out<DevicePointer>, bytes: usize) -> Code {
    outcome(|| {
        let context = context::usable()?;
        at.set(memory::allocate(bytes as u64, Kind::Device, context.device, handle_of(&context))?)
    })
}
