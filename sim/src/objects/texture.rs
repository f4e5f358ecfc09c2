//! Texture objects: point sampling of linear memory, pitched memory and arrays.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;

use crate::abi::code::{Code, Result};
use crate::abi::structs::{ResourceDescriptor, TextureDescriptor, ViewDescriptor};
use crate::base::state::knobs;
use crate::memory::table::Ranges;
use crate::objects::array;
use crate::ptx::exec::half_to_f32;

#[derive(Clone, Copy)]
pub(crate) struct Texture {
    pub resource: ResourceDescriptor,
    pub texture: TextureDescriptor,
    pub view: Option<ViewDescriptor>,
    base: u64,
    format: u32,
    channels: u32,
    size: [usize; 3],
    pitch: usize,
}

/// By the id of the context, and number: every context counts its own.
type Numbered<T> = BTreeMap<(u64, u64), T>;

static TEXTURES: RwLock<Numbered<Texture>> = RwLock::new(BTreeMap::new());

const READ_AS_INTEGER: u32 = 1;
const NORMALIZED: u32 = 2;

pub(crate) fn create(
    context: u64,
    resource: ResourceDescriptor,
    texture: TextureDescriptor,
    view: Option<ViewDescriptor>,
) -> Result<u64> {
    let words = resource.words;
    let (base, format, channels, size, pitch) = match resource.kind {
        0 => {
            let array = array::find(words[0] as usize)?;
            let d = array.descriptor;
            let size = [d.width, array.rows(), array.slices()];
            (array.base, d.format, d.channels, size, array.pitch())
        }
        // The largest level is all that is sampled.
        1 => {
            let largest = array::Mipmap::find(words[0] as usize)?.levels[0];
            let array = array::find(largest)?;
            let d = array.descriptor;
            (array.base, d.format, d.channels, [d.width, array.rows(), array.slices()], array.pitch())
        }
        2 => {
            let (format, channels) = (words[1] as u32, (words[1] >> 32) as u32);
            let texel = array::channel_bytes(format)? * channels as usize;
            let width = words[2] as usize / texel.max(1);
            (words[0], format, channels, [width, 1, 1], words[2] as usize)
        }
        3 => {
            let (format, channels) = (words[1] as u32, (words[1] >> 32) as u32);
            (words[0], format, channels, [words[2] as usize, words[3] as usize, 1], words[4] as usize)
        }
        _ => return Err(Code::NOT_SUPPORTED),
    };
    array::channel_bytes(format)?;
    let mut all = TEXTURES.write();
    let number = number(context, &all);
    all.insert((context, number), Texture { resource, texture, view, base, format, channels, size, pitch });
    Ok(number)
}

static SURFACES: RwLock<Numbered<ResourceDescriptor>> = RwLock::new(BTreeMap::new());

/// Surfaces are on arrays that were made for it.
pub(crate) fn create_surface(context: u64, resource: ResourceDescriptor) -> Result<u64> {
    const SURFACE_LOAD_STORE: u32 = 2;
    if resource.kind != 0 || array::find(resource.words[0] as usize)?.descriptor.flags & SURFACE_LOAD_STORE == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut all = SURFACES.write();
    let number = last(context, &all) + 1;
    all.insert((context, number), resource);
    Ok(number)
}

pub(crate) fn surface(context: u64, number: u64) -> Result<ResourceDescriptor> {
    SURFACES.read().get(&(context, number)).copied().ok_or(Code::INVALID_VALUE)
}

pub(crate) fn destroy_surface(context: u64, number: u64) -> Result {
    SURFACES.write().remove(&(context, number)).map(drop).ok_or(Code::INVALID_VALUE)
}

/// The highest number of a context, 0 for none.
fn last<T>(context: u64, all: &Numbered<T>) -> u64 {
    all.range((context, 0)..=(context, u64::MAX)).next_back().map_or(0, |((_, number), _)| *number)
}

/// A number that is free: the lowest, or the next one round. The seed decides, for nothing says which a
/// driver takes.
fn number(context: u64, all: &Numbered<Texture>) -> u64 {
    const ROUND: u64 = 64;
    static LAST: AtomicU64 = AtomicU64::new(0);
    let after = if knobs().seed.is_multiple_of(2) { 0 } else { LAST.load(Relaxed) };
    let round = (0..ROUND).map(|n| (after + n) % ROUND + 1).find(|number| !all.contains_key(&(context, *number)));
    let number = round.unwrap_or_else(|| last(context, all) + 1);
    LAST.store(number, Relaxed);
    number
}

pub(crate) fn find(context: u64, number: u64) -> Result<Texture> {
    TEXTURES.read().get(&(context, number)).copied().ok_or(Code::INVALID_VALUE)
}

/// One that is gone may be destroyed again (driver 580).
pub(crate) fn destroy(context: u64, number: u64) {
    TEXTURES.write().remove(&(context, number));
}

pub(crate) fn close_all(context: u64) {
    TEXTURES.write().retain(|(of, _), _| *of != context);
    SURFACES.write().retain(|(of, _), _| *of != context);
}

/// The four channels at a point, as register values.
pub(crate) fn fetch(memory: &Ranges<'_>, context: u64, number: u64, point: [f64; 3]) -> Option<[u64; 4]> {
    let texture = TEXTURES.read().get(&(context, number)).copied()?;
    texture.sample(memory, point)
}

impl Texture {
    fn sample(&self, memory: &Ranges<'_>, point: [f64; 3]) -> Option<[u64; 4]> {
        let mut at = [0usize; 3];
        for axis in 0..3 {
            let length = self.size[axis];
            let position = if self.texture.flags & NORMALIZED != 0 { point[axis] * length as f64 } else { point[axis] };
            match address(position.floor() as i64, length as i64, self.texture.address_mode[axis]) {
                Some(index) => at[axis] = index as usize,
                None => return Some(self.texture.border.map(|c| u64::from(c.to_bits()))),
            }
        }
        let channel = array::channel_bytes(self.format).ok()?;
        let texel = channel * self.channels as usize;
        let first = self.base + (at[0] * texel + (at[1] + at[2] * self.size[1]) * self.pitch) as u64;
        if !memory.covers(first, texel as u64, false) {
            return None;
        }
        let mut out = [0, 0, 0, u64::from(1f32.to_bits())];
        for (index, value) in out.iter_mut().enumerate().take(self.channels as usize) {
            let mut bytes = [0u8; 4];
            // SAFETY: the texel lies in a live range while `memory` is held.
            unsafe {
                let from = (first as usize + index * channel) as *const u8;
                std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), channel);
            }
            *value = u64::from(self.channel(u32::from_le_bytes(bytes)));
        }
        Some(out)
    }

    /// A channel as a register: floats as they are, integers as they are or as a fraction of their range.
    fn channel(&self, raw: u32) -> u32 {
        let fraction = |value: f32| value.to_bits();
        let integer = self.texture.flags & READ_AS_INTEGER != 0;
        match self.format {
            0x10 => half_to_f32(raw as u16).to_bits(),
            0x01 if !integer => fraction(raw as f32 / 255.0),
            0x02 if !integer => fraction(raw as f32 / 65535.0),
            0x08 if !integer => fraction((f32::from(raw as u8 as i8) / 127.0).max(-1.0)),
            0x09 if !integer => fraction((f32::from(raw as u16 as i16) / 32767.0).max(-1.0)),
            0x08 => raw as u8 as i8 as u32,
            0x09 => raw as u16 as i16 as u32,
            _ => raw,
        }
    }
}

/// The index of a coordinate under an addressing mode; none where the border is read.
fn address(at: i64, length: i64, mode: u32) -> Option<i64> {
    match mode {
        _ if (0..length).contains(&at) => Some(at),
        0 => Some(at.rem_euclid(length)),
        2 => {
            let folded = at.rem_euclid(2 * length);
            Some(if folded < length { folded } else { 2 * length - 1 - folded })
        }
        3 => None,
        _ => Some(at.clamp(0, length - 1)),
    }
}
