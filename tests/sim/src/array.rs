//! Arrays: device memory reached by coordinates. Here it is laid out row after row.

use std::sync::{Arc, Weak};

use crate::abi::Handle;
use crate::code::{Code, Result};
use crate::context::{self, Context};
use crate::entry::structs::Array3dDescriptor;
use crate::memory::allocate;
use crate::memory::table::{self, Kind};
use crate::registry::{Registry, handle_of};

pub struct Array {
    pub descriptor: Array3dDescriptor,
    pub base: u64,
    context: Weak<Context>,
}

static ARRAYS: Registry<Array> = Registry::new();

/// Bytes of one channel of a format.
pub fn channel_bytes(format: u32) -> Result<usize> {
    match format {
        0x01 | 0x08 => Ok(1),
        0x02 | 0x09 | 0x10 => Ok(2),
        0x03 | 0x0a | 0x20 => Ok(4),
        _ => Err(Code::INVALID_VALUE),
    }
}

pub fn create(descriptor: Array3dDescriptor) -> Result<Handle> {
    let context = context::usable()?;
    if descriptor.width == 0 || ![1, 2, 4].contains(&descriptor.channels) {
        return Err(Code::INVALID_VALUE);
    }
    let mut array = Array { descriptor, base: 0, context: Arc::downgrade(&context) };
    let element = channel_bytes(descriptor.format)? * descriptor.channels as usize;
    let size = element * descriptor.width * array.rows() * array.slices();
    array.base = allocate::allocate(size as u64, Kind::Module, context.device, handle_of(&context))?;
    Ok(ARRAYS.insert(Arc::new(array)))
}

pub fn find(handle: Handle) -> Result<Arc<Array>> {
    ARRAYS.find(handle)
}

pub fn destroy(handle: Handle) -> Result {
    let array = ARRAYS.remove(handle)?;
    if let Some(context) = array.context.upgrade() {
        context.lanes.wait_all();
    }
    if let Some(range) = table::remove(array.base, |_| true) {
        allocate::release(range);
    }
    Ok(())
}

/// The memory itself goes with the context's other ranges.
pub fn close_all(context: &Context) {
    ARRAYS.drain(|a| std::ptr::eq(a.context.as_ptr(), context));
}

impl Array {
    pub fn element(&self) -> usize {
        channel_bytes(self.descriptor.format).unwrap_or(1) * self.descriptor.channels as usize
    }

    pub fn pitch(&self) -> usize {
        self.element() * self.descriptor.width
    }

    pub fn rows(&self) -> usize {
        self.descriptor.height.max(1)
    }

    pub fn slices(&self) -> usize {
        self.descriptor.depth.max(1)
    }

    pub fn bytes(&self) -> usize {
        self.pitch() * self.rows() * self.slices()
    }
}
