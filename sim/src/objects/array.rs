//! Arrays: device memory addressed by coordinates, here stored row after row.

use std::sync::{Arc, Weak};

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::abi::structs::{Array3dDescriptor, ArrayDescriptor};
use crate::base::registry::{Registry, handle_of};
use crate::memory::allocate;
use crate::memory::table::{self, Kind};
use crate::streams::context::{self, Context};

pub(crate) struct Array {
    pub descriptor: Array3dDescriptor,
    pub base: u64,
    context: Weak<Context>,
}

static ARRAYS: Registry<Array> = Registry::new();

/// The levels of a mipmapped array: arrays of halving sizes.
pub(crate) struct Mipmap {
    pub descriptor: Array3dDescriptor,
    pub levels: Vec<Handle>,
    context: Weak<Context>,
}

static MIPMAPS: Registry<Mipmap> = Registry::new();

/// Such an array has no memory before some is mapped into it; here it has.
pub(crate) const DEFERRED_MAPPING: u32 = 0x80;
/// Memory for parts of an array: not here.
const SPARSE: u32 = 0x40;

/// Bytes of one channel of a format.
pub(crate) fn channel_bytes(format: u32) -> Result<usize> {
    match format {
        0x01 | 0x08 => Ok(1),
        0x02 | 0x09 | 0x10 => Ok(2),
        0x03 | 0x0a | 0x20 => Ok(4),
        _ => Err(Code::INVALID_VALUE),
    }
}

pub(crate) fn create(descriptor: Array3dDescriptor) -> Result<Handle> {
    let context = context::usable()?;
    if descriptor.flags & SPARSE != 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    if descriptor.width == 0 || ![1, 2, 4].contains(&descriptor.channels) {
        return Err(Code::INVALID_VALUE);
    }
    let mut array = Array { descriptor, base: 0, context: Arc::downgrade(&context) };
    let element = channel_bytes(descriptor.format)? * descriptor.channels as usize;
    let size = element * descriptor.width * array.rows() * array.slices();
    array.base = allocate::allocate(size as u64, Kind::Module { managed: false }, context.device, handle_of(&context))?;
    Ok(ARRAYS.insert(Arc::new(array)))
}

pub(crate) fn find(handle: Handle) -> Result<Arc<Array>> {
    ARRAYS.find(handle)
}

pub(crate) fn destroy(handle: Handle) -> Result {
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
pub(crate) fn close_all(context: &Context) {
    ARRAYS.drain(|a| std::ptr::eq(a.context.as_ptr(), context));
    MIPMAPS.drain(|m| std::ptr::eq(m.context.as_ptr(), context));
}

impl Mipmap {
    pub(crate) fn create(descriptor: Array3dDescriptor, levels: u32) -> Result<Handle> {
        let context = Arc::downgrade(&context::usable()?);
        let most = descriptor.width.max(descriptor.height).max(descriptor.depth).checked_ilog2().map_or(0, |n| n + 1);
        let mut mipmap = Mipmap { descriptor, levels: Vec::new(), context };
        for level in 0..levels.clamp(1, most.max(1)) {
            let half = |size: usize| if size == 0 { 0 } else { (size >> level).max(1) };
            let Array3dDescriptor { width, height, depth, .. } = descriptor;
            let (width, height, depth) = (half(width), half(height), half(depth));
            mipmap.levels.push(create(Array3dDescriptor { width, height, depth, ..descriptor })?);
        }
        Ok(MIPMAPS.insert(Arc::new(mipmap)))
    }

    pub(crate) fn find(handle: Handle) -> Result<Arc<Mipmap>> {
        MIPMAPS.find(handle)
    }

    pub(crate) fn destroy(handle: Handle) -> Result {
        MIPMAPS.remove(handle)?.levels.iter().try_for_each(|level| destroy(*level))
    }
}

impl Array {
    pub(crate) fn flat(&self) -> ArrayDescriptor {
        let Array3dDescriptor { width, height, format, channels, .. } = self.descriptor;
        ArrayDescriptor { width, height, format, channels }
    }

    pub(crate) fn element(&self) -> usize {
        channel_bytes(self.descriptor.format).unwrap_or(1) * self.descriptor.channels as usize
    }

    pub(crate) fn pitch(&self) -> usize {
        self.element() * self.descriptor.width
    }

    pub(crate) fn rows(&self) -> usize {
        self.descriptor.height.max(1)
    }

    pub(crate) fn slices(&self) -> usize {
        self.descriptor.depth.max(1)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pitch() * self.rows() * self.slices()
    }
}
