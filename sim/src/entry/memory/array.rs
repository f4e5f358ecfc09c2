//! Arrays.

use crate::abi::code::Code;
use crate::abi::structs::{Array3dDescriptor, ArrayDescriptor};
use crate::abi::{Handle, Input, Out};
use crate::entry::declare::entries;
use crate::objects::array;

entries! {
    fn cuArrayCreate_v2(made: Out<Handle>, descriptor: Input<ArrayDescriptor>) {
        let ArrayDescriptor { width, height, format, channels } = descriptor.get()?;
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(array::create(Array3dDescriptor { width, height, depth: 0, format, channels, flags: 0 })?)
    }

    fn cuArray3DCreate_v2(made: Out<Handle>, descriptor: Input<Array3dDescriptor>) {
        let descriptor = descriptor.get()?;
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(array::create(descriptor)?)
    }

    fn cuArrayDestroy(harray: Handle) {
        array::destroy(harray)
    }

    fn cuArrayGetDescriptor_v2(descriptor: Out<ArrayDescriptor>, harray: Handle) {
        descriptor.set(array::find(harray)?.flat())
    }

    fn cuArray3DGetDescriptor_v2(descriptor: Out<Array3dDescriptor>, harray: Handle) {
        descriptor.set(array::find(harray)?.descriptor)
    }
}
