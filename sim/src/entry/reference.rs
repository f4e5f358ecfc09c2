//! Texture references, whose settings are stored and returned. No kernel reads through one.

use std::sync::Arc;

use parking_lot::Mutex;

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::structs::ArrayDescriptor;
use crate::abi::{DevicePointer, Handle, Input, Out};
use crate::base::registry::Registry;
use crate::objects::array::{self, Mipmap};
use crate::streams::context;

#[derive(Clone, Copy, Default)]
enum Bound {
    #[default]
    Nothing,
    Memory(DevicePointer),
    Array(Handle),
    Mipmap(Handle),
}

#[derive(Clone, Copy, Default)]
struct Settings {
    bound: Bound,
    format: u32,
    channels: i32,
    address: [u32; 3],
    filter: u32,
    mipmap_filter: u32,
    bias: f32,
    clamp: [f32; 2],
    anisotropy: u32,
    border: [f32; 4],
    flags: u32,
}

static REFERENCES: Registry<Mutex<Settings>> = Registry::new();

/// Takes the format of what is bound.
const OVERRIDE_FORMAT: u32 = 1;

fn change(reference: Handle, change: impl FnOnce(&mut Settings) -> Result) -> Result {
    change(&mut REFERENCES.find(reference)?.lock())
}

fn ask(reference: Handle) -> Result<Settings> {
    Ok(*REFERENCES.find(reference)?.lock())
}

fn bind(reference: Handle, bound: Bound, format: u32, channels: u32, flags: u32) -> Result {
    change(reference, |settings| {
        if flags != OVERRIDE_FORMAT {
            return Err(Code::INVALID_VALUE);
        }
        (settings.bound, settings.format, settings.channels) = (bound, format, channels as i32);
        Ok(())
    })
}

fn pitched(reference: Handle, descriptor: Input<ArrayDescriptor>, at: DevicePointer, pitch: usize) -> Result {
    let ArrayDescriptor { width, format, channels, .. } = descriptor.get()?;
    if width * array::channel_bytes(format)? * channels as usize > pitch {
        return Err(Code::INVALID_VALUE);
    }
    bind(reference, Bound::Memory(at), format, channels, OVERRIDE_FORMAT)
}

fn dimension(dim: i32) -> Result<usize> {
    usize::try_from(dim).ok().filter(|dim| *dim < 3).ok_or(Code::INVALID_VALUE)
}

entries! {
    fn cuTexRefCreate(made: Out<Handle>) {
        context::usable()?;
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(REFERENCES.insert(Arc::default()))
    }

    fn cuTexRefDestroy(reference: Handle) {
        REFERENCES.remove(reference).map(drop)
    }

    fn cuTexRefSetArray(reference: Handle, harray: Handle, flags: u32) {
        let ArrayDescriptor { format, channels, .. } = array::find(harray)?.flat();
        bind(reference, Bound::Array(harray), format, channels, flags)
    }

    fn cuTexRefGetArray(harray: Out<Handle>, reference: Handle) {
        match ask(reference)?.bound {
            Bound::Array(bound) => harray.set(bound),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuTexRefSetMipmappedArray(reference: Handle, mipmap: Handle, flags: u32) {
        let descriptor = Mipmap::find(mipmap)?.descriptor;
        bind(reference, Bound::Mipmap(mipmap), descriptor.format, descriptor.channels, flags)
    }

    fn cuTexRefGetMipmappedArray(mipmap: Out<Handle>, reference: Handle) {
        match ask(reference)?.bound {
            Bound::Mipmap(bound) => mipmap.set(bound),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuTexRefSetAddress_v2(offset: Out<usize>, reference: Handle, at: DevicePointer, _bytes: usize) {
        let before = at % crate::base::device::attribute(14, 0)? as u64;
        if before != 0 && offset.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        offset.set_if(before as usize);
        change(reference, |settings| {
            settings.bound = Bound::Memory(at);
            Ok(())
        })
    }

    fn cuTexRefSetAddress2D_v2(reference: Handle, descriptor: Input<ArrayDescriptor>, at: DevicePointer, pitch: usize) {
        pitched(reference, descriptor, at, pitch)
    }

    fn cuTexRefSetAddress2D_v3(reference: Handle, descriptor: Input<ArrayDescriptor>, at: DevicePointer, pitch: usize) {
        pitched(reference, descriptor, at, pitch)
    }

    fn cuTexRefGetAddress_v2(at: Out<DevicePointer>, reference: Handle) {
        match ask(reference)?.bound {
            Bound::Memory(bound) => at.set(bound),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuTexRefSetFormat(reference: Handle, format: u32, channels: i32) {
        array::channel_bytes(format)?;
        change(reference, |settings| {
            (settings.format, settings.channels) = (format, channels);
            Ok(())
        })
    }

    fn cuTexRefGetFormat(format: Out<u32>, channels: Out<i32>, reference: Handle) {
        let settings = ask(reference)?;
        format.set_if(settings.format);
        channels.set_if(settings.channels);
        Ok(())
    }

    fn cuTexRefSetAddressMode(reference: Handle, dim: i32, mode: u32) {
        let dim = dimension(dim)?;
        change(reference, |settings| {
            settings.address[dim] = mode;
            Ok(())
        })
    }

    fn cuTexRefGetAddressMode(mode: Out<u32>, reference: Handle, dim: i32) {
        mode.set(ask(reference)?.address[dimension(dim)?])
    }

    fn cuTexRefSetFilterMode(reference: Handle, mode: u32) {
        change(reference, |settings| {
            settings.filter = mode;
            Ok(())
        })
    }

    fn cuTexRefGetFilterMode(mode: Out<u32>, reference: Handle) {
        mode.set(ask(reference)?.filter)
    }

    fn cuTexRefSetMipmapFilterMode(reference: Handle, mode: u32) {
        change(reference, |settings| {
            settings.mipmap_filter = mode;
            Ok(())
        })
    }

    fn cuTexRefGetMipmapFilterMode(mode: Out<u32>, reference: Handle) {
        mode.set(ask(reference)?.mipmap_filter)
    }

    fn cuTexRefSetMipmapLevelBias(reference: Handle, bias: f32) {
        change(reference, |settings| {
            settings.bias = bias;
            Ok(())
        })
    }

    fn cuTexRefGetMipmapLevelBias(bias: Out<f32>, reference: Handle) {
        bias.set(ask(reference)?.bias)
    }

    fn cuTexRefSetMipmapLevelClamp(reference: Handle, low: f32, high: f32) {
        change(reference, |settings| {
            settings.clamp = [low, high];
            Ok(())
        })
    }

    fn cuTexRefGetMipmapLevelClamp(low: Out<f32>, high: Out<f32>, reference: Handle) {
        let [least, most] = ask(reference)?.clamp;
        low.set(least)?;
        high.set(most)
    }

    fn cuTexRefSetMaxAnisotropy(reference: Handle, most: u32) {
        change(reference, |settings| {
            settings.anisotropy = most;
            Ok(())
        })
    }

    fn cuTexRefGetMaxAnisotropy(most: Out<u32>, reference: Handle) {
        most.set(ask(reference)?.anisotropy)
    }

    fn cuTexRefSetBorderColor(reference: Handle, color: Input<[f32; 4]>) {
        let color = color.get()?;
        change(reference, |settings| {
            settings.border = color;
            Ok(())
        })
    }

    fn cuTexRefGetBorderColor(color: Out<[f32; 4]>, reference: Handle) {
        color.set(ask(reference)?.border)
    }

    fn cuTexRefSetFlags(reference: Handle, flags: u32) {
        change(reference, |settings| {
            settings.flags = flags;
            Ok(())
        })
    }

    fn cuTexRefGetFlags(flags: Out<u32>, reference: Handle) {
        flags.set(ask(reference)?.flags)
    }

    fn cuParamSetTexRef(hfunction: Handle, unit: i32, reference: Handle) {
        ask(reference)?;
        crate::objects::module::function(hfunction)?;
        // The unit is always that which the driver chooses.
        if unit == -1 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}
