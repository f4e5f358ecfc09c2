//! Queries about pointers.

use std::ffi::c_void;

use crate::abi::code::{Code, Result};
use crate::abi::{DevicePointer, Input, Out};
use crate::entry::declare::entries;
use crate::memory::attribute::{Value, get, get_or_nothing};
use crate::streams::context;

fn store(to: Out<c_void>, value: Value) -> Result {
    match value {
        Value::Byte(byte) => to.cast().set(byte),
        Value::Word(word) => to.cast().set(word),
        Value::Long(long) => to.cast().set(long),
    }
}

entries! {
    fn cuPointerGetAttribute(data: Out<c_void>, attribute: u32, at: DevicePointer) {
        store(data, get(attribute, at)?)
    }

    /// Memory that the driver does not know has attributes too: zeros.
    fn cuPointerGetAttributes(count: u32, attributes: Input<u32>, data: Input<Out<c_void>>, at: DevicePointer) {
        context::permitted()?;
        for index in 0..count as usize {
            store(data.element(index)?, get_or_nothing(attributes.element(index)?, at)?)?;
        }
        Ok(())
    }

    /// Only whether operations are synchronous can be set, and they are not made so.
    fn cuPointerSetAttribute(value: Input<u32>, attribute: u32, at: DevicePointer) {
        value.get()?;
        get(attribute, at)?;
        if attribute == 6 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}
