//! Mipmapped arrays: an array for each level, half as large as the previous one. Also surfaces on arrays.

use crate::abi::code::{Code, Result};
use crate::abi::structs::{Array3dDescriptor, ResourceDescriptor};
use crate::abi::{Handle, Input, Out};
use crate::base::device;
use crate::entry::declare::entries;
use crate::objects::array::{self, Mipmap};
use crate::objects::texture;
use crate::streams::context;

/// CUDA_ARRAY_MEMORY_REQUIREMENTS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Requirements {
    size: usize,
    alignment: usize,
    reserved: [u32; 4],
}

/// Only arrays that have no memory yet can be asked.
fn requirements(descriptor: Array3dDescriptor, bytes: usize, dev: i32) -> Result<Requirements> {
    device::check(dev)?;
    if descriptor.flags & array::DEFERRED_MAPPING == 0 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Requirements { size: bytes, alignment: 512, reserved: [0; 4] })
}

entries! {
    fn cuMipmappedArrayCreate(made: Out<Handle>, descriptor: Input<Array3dDescriptor>, levels: u32) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(Mipmap::create(descriptor.get()?, levels)?)
    }

    fn cuMipmappedArrayGetLevel(level: Out<Handle>, mipmap: Handle, index: u32) {
        level.set(Mipmap::find(mipmap)?.levels.get(index as usize).copied().ok_or(Code::INVALID_VALUE)?)
    }

    fn cuMipmappedArrayDestroy(mipmap: Handle) {
        Mipmap::destroy(mipmap)
    }

    fn cuMipmappedArrayGetMemoryRequirements(needed: Out<Requirements>, mipmap: Handle, dev: i32) {
        let mipmap = Mipmap::find(mipmap)?;
        let bytes = mipmap.levels.iter().filter_map(|level| array::find(*level).ok()).map(|level| level.bytes()).sum();
        needed.set(requirements(mipmap.descriptor, bytes, dev)?)
    }

    fn cuArrayGetMemoryRequirements(needed: Out<Requirements>, harray: Handle, dev: i32) {
        let array = array::find(harray)?;
        needed.set(requirements(array.descriptor, array.bytes(), dev)?)
    }

    /// No array here has planes, or parts without memory.
    fn cuArrayGetPlane(_plane: Out<Handle>, harray: Handle, _index: u32) {
        array::find(harray)?;
        Err(Code::INVALID_VALUE)
    }

    fn cuArrayGetSparseProperties(_properties: Out<u8>, harray: Handle) {
        array::find(harray)?;
        Err(Code::INVALID_VALUE)
    }

    fn cuMipmappedArrayGetSparseProperties(_properties: Out<u8>, mipmap: Handle) {
        Mipmap::find(mipmap)?;
        Err(Code::INVALID_VALUE)
    }

    fn cuSurfObjectCreate(made: Out<u64>, resource: Input<ResourceDescriptor>) {
        let context = context::usable()?;
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(texture::create_surface(context.id, resource.get()?)?)
    }

    fn cuSurfObjectDestroy(object: u64) {
        texture::destroy_surface(context::current()?.id, object)
    }

    fn cuSurfObjectGetResourceDesc(resource: Out<ResourceDescriptor>, object: u64) {
        resource.set(texture::surface(context::current()?.id, object)?)
    }
}
