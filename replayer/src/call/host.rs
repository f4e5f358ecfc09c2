//! The host side of copies: payloads in, results out.
//!
//! A payload is read straight from the trace where it lies in one piece. Pinned memory is at its recorded address (or
//! translated), so copies from and to it use it: what the device writes there, a later copy must find.

use crate::call::buffers::{Builder, Here, dense};
use crate::call::frame::{Memory, Refusal};
use crate::plan::action::between_either;
use crate::plan::captures::memory_type;
use crate::run::readers::{self, Held};
use crate::run::sinks::Sink;
use crate::run::written::host;
use std::borrow::Cow;
use std::ops::Range;
use trace::api::copies::{Region, region};
use trace::api::enums::CUmemorytype;
use trace::api::roles::{Class, Field, Side};
use trace::api::types::{Form, Type};
use trace::call::{Content, Image, When};

impl<'t> Builder<'_, 't> {
    /// Live memory that holds the recorded bytes of a region; its first address.
    pub fn source(&mut self, name: &'static str, recorded: Region) -> Result<u64, Refusal> {
        if self.is_managed(&recorded) {
            return self.managed(name, &recorded);
        }
        let host = self.world.placement.host(&range(name, &recorded)?);
        let Some(bytes) = self.packed(&recorded) else {
            // A node is made long before it runs: nobody could know then what it would read.
            return match host {
                Some(live) => {
                    self.frame.sources.push(live..live + recorded.span());
                    Ok(live)
                }
                None if self.function.class == Class::graph => {
                    self.frame.retain = true;
                    Ok(self.own(Memory::zeroed(recorded.span() as usize)?))
                }
                None => Err(self.missing(name)),
            };
        };
        let layout = self.layout(name, &recorded);
        let bytes = self.payload(bytes, layout);
        let Some(live) = host else {
            if self.makes_node() && self.world.trace.follows_host_memory() {
                return self.source_of_node(&recorded, &bytes);
            }
            if let (Cow::Borrowed(bytes), true) = (&bytes, recorded.is_dense()) {
                return Ok(bytes.as_ptr() as u64);
            }
            let mut memory = Memory::zeroed(recorded.span() as usize)?;
            for (row, bytes) in rows(&recorded, &bytes) {
                memory.put((row - recorded.address) as usize, bytes);
            }
            if self.makes_node() {
                self.frame.retain = true;
                return Ok(self.own(memory));
            }
            let address = memory.address();
            self.frame.lent.push(memory);
            return Ok(address);
        };
        self.write_host(&recorded, live, &bytes);
        self.frame.sources.push(live..live + recorded.span());
        Ok(live)
    }

    /// Memory for a graph to read whenever it runs. What is there then is told as all is that the CPU writes; what was there when the
    /// node was made matters only if it could not be followed.
    fn source_of_node(&mut self, recorded: &Region, bytes: &[u8]) -> Result<u64, Refusal> {
        let live = self.graph_memory(recorded)?;
        let is_lost = |image: Image| {
            let meets = image.address < recorded.address + recorded.span()
                && recorded.address < image.address.saturating_add(image.len.max(1));
            meets && matches!(image.content, Content::Lost)
        };
        if self.call.written().flat_map(|written| written.images()).any(is_lost) {
            self.write_host(recorded, live, bytes);
        }
        Ok(live)
    }

    /// Whether the call makes a graph node, now or when its capture ends.
    fn makes_node(&self) -> bool {
        self.function.class == Class::graph || self.world.plan.captured_copies.contains(&self.call.number)
    }

    fn graph_memory(&mut self, recorded: &Region) -> Result<u64, Refusal> {
        let live =
            self.world.graph_memory.hold(&(recorded.address..recorded.address.saturating_add(recorded.span())))?;
        self.frame.sources.push(live..live + recorded.span());
        Ok(live)
    }

    /// What the application's CPU had written into pinned memory by the time of this call, which is at `live` here.
    fn write_host(&mut self, recorded: &Region, live: u64, bytes: &[u8]) {
        let to = Region { address: live, ..*recorded };
        let rows = || rows(&to, bytes);
        // SAFETY: the placement (or the memory of graphs) holds this memory, readable and writable, until the end.
        let at = |row: u64| unsafe { std::slice::from_raw_parts(row as *const u8, to.row_bytes as usize) };
        let range = to.address..to.address + to.span();
        // What a copy is still bringing may change what agrees now.
        if !self.world.sinks.is_landing_in(&range) && rows().all(|(row, bytes)| at(row) == bytes) {
            return;
        }
        readers::release(self.world, self.call.thread, &range, self.call.begin, &Held::nowhere(), self.tally);
        for (row, bytes) in rows() {
            let start = recorded.address + (row - live);
            self.world.callbacks.write(self.call.begin, start..start + to.row_bytes, |part| {
                let from = &bytes[(part.start - start) as usize..(part.end - start) as usize];
                let at = row + (part.start - start);
                // SAFETY: as above; no copy of the replay reads or writes it any more.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at as *mut u8, from.len()) };
            });
        }
    }

    /// Live memory to take the bytes of a region; its first address.
    pub fn sink(&mut self, name: &'static str, recorded: Region) -> Result<u64, Refusal> {
        if self.is_managed(&recorded) {
            return self.managed(name, &recorded);
        }
        let expected = self.expected(&recorded);
        let memory = range(name, &recorded)?;
        let placed = self.world.placement.host(&memory);
        let is_placed = placed.is_some();
        let (live, memory) = match placed {
            Some(live) if self.makes_node() && self.is_result(&recorded) => return Ok(live),
            Some(live) => {
                let span = live..live + recorded.span();
                readers::overtake(self.world, self.call.thread, &span, self.tally);
                (live, None)
            }
            // A node copies there whenever its graph runs; what it brought is compared when that has been waited for.
            None if self.makes_node() && self.region_images(&recorded).is_empty() => {
                self.tally.unchecked_copies += u64::from(!self.is_result(&recorded));
                return self.graph_memory(&recorded);
            }
            None => match host(self.world, &memory) {
                Some(live) => (live, None),
                None => {
                    let memory = Memory::zeroed(recorded.span() as usize)?;
                    (memory.address(), Some(memory))
                }
            },
        };
        let is_shared = memory.is_none() && !is_placed;
        let region = Region { address: live, ..recorded };
        let (words, since) = (self.layout(name, &recorded), self.world.translation.now());
        self.frame.sinks.push(Sink { name: name.into(), region, memory, is_shared, expected, words, since });
        Ok(live)
    }

    /// Whether it is compared what graphs bring there, when that has been waited for or a callback takes it.
    fn is_result(&self, recorded: &Region) -> bool {
        self.region_images(recorded).is_empty() && self.world.plan.results.contains(&recorded.address)
    }

    /// Whether the copy took memory for the host's that is the device's in a replay.
    fn is_managed(&self, recorded: &Region) -> bool {
        let (plan, translation) = (self.world.plan, self.world.translation);
        let is_host = plan.host.contains(recorded.address) || !self.region_images(recorded).is_empty();
        !is_host && (plan.device.contains(recorded.address) || translation.live(recorded.address).is_some())
    }

    /// Then it is one between addresses of either side.
    fn managed(&mut self, name: &str, recorded: &Region) -> Result<u64, Refusal> {
        let why = || {
            Refusal(format!("{name} is managed memory, and no copy between addresses of either side is like this one"))
        };
        self.frame.instead = Some(between_either(self.function).ok_or_else(why)?);
        Ok(self.moved(recorded.address))
    }

    /// An address that may be of either side. It is the host's if the recorder found bytes there. `len`: as many as the
    /// call says; if it does not, all that were found.
    pub fn unified(
        &mut self,
        name: &'static str,
        address: u64,
        len: Option<u64>,
        writes: bool,
    ) -> Result<u64, Refusal> {
        let found = self.image_length(address);
        if found > 0 {
            let region = dense(address, len.unwrap_or(found));
            return if writes { self.sink(name, region) } else { self.source(name, region) };
        }
        // Pageable memory, of which nothing is recorded with the call: at its own address there is none here.
        if writes && self.world.plan.of_nodes.contains(address) && !self.is_known(address) {
            return self.sink(name, dense(address, len.unwrap_or(0)));
        }
        // A node may be made of any address, to ask about it (XLA has cuDNN capture graphs that never run).
        match self.is_known(address) || self.makes_node() || !self.call.succeeded() {
            true => Ok(self.moved(address)),
            false => Err(Refusal(format!("{name} {address:#x} lies in no memory that the trace knows of"))),
        }
    }

    /// Arrays of addresses, each of either side, and of how many bytes there are at each.
    pub fn each(
        &mut self,
        name: &'static str,
        array: u64,
        sizes: u64,
        count: u64,
        writes: bool,
    ) -> Result<u64, Refusal> {
        let len = count.checked_mul(8).ok_or_else(|| self.missing(name))?;
        let words = |at| self.call.memory(When::Entry, at, len);
        let (addresses, sizes) = words(array).zip(words(sizes)).ok_or_else(|| self.missing(name))?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let mut live = Vec::with_capacity(addresses.len());
        for (address, size) in addresses.chunks_exact(8).zip(sizes.chunks_exact(8)) {
            live.extend(self.unified(name, word(address), Some(word(size)), writes)?.to_le_bytes());
        }
        Ok(self.own(Memory::of(&live)?))
    }

    /// One side of a copy descriptor of type `ty` at `base`, if it is on the host.
    pub fn copy_side(
        &mut self,
        ty: &'static Type,
        fields: &'static [Field],
        index: usize,
        side: Side,
        base: u32,
        here: Here,
    ) -> Result<(), Refusal> {
        let Some(descriptor) = here.recorded.get(base as usize..(base + ty.size) as usize) else { return Ok(()) };
        let Some(recorded) = self.host_region(ty, descriptor, side) else { return Ok(()) };
        let name = fields[index].name;
        if self.is_managed(&recorded) {
            let host = here.load(base + fields[index].offset, 8).unwrap_or(0);
            let moved = host.wrapping_add(self.moved(recorded.address).wrapping_sub(recorded.address));
            let [tag, device] = either_side(fields, index).ok_or_else(|| self.missing(name))?;
            self.put(here, base + tag.offset, tag.ty.size, u64::from(CUmemorytype::CU_MEMORYTYPE_UNIFIED.0));
            self.put(here, base + device.offset, device.ty.size, moved);
            return Ok(());
        }
        let live = match side {
            Side::Source => self.source(name, recorded)?,
            Side::Destination => self.sink(name, recorded)?,
        };
        // Start and pitch stay as they are, so the base moves with the first byte.
        let base_at = base_pointer(fields, index, base, here);
        let moved = here.load(base_at, 8).unwrap_or(0).wrapping_add(live.wrapping_sub(recorded.address));
        self.put(here, base_at, 8, moved);
        if self.function.class == Class::graph {
            self.frame.retain = true;
        }
        Ok(())
    }

    fn host_region(&self, ty: &'static Type, descriptor: &[u8], side: Side) -> Option<Region> {
        let with = |element| region(ty, descriptor, side, |_| Some(element));
        let is_host = |region: &Region| {
            let size = self.region_images(region).iter().map(|image| image.len).sum::<u64>();
            size == region.bytes() || size == region.span()
        };
        // How wide the elements of an array are is not at hand; how many bytes were recorded is.
        let found = [1, 2, 4, 8, 16].into_iter().filter_map(with).find(is_host);
        // A host pointer is one even if nothing was recorded of what it points to, and so is a unified address that is
        // no device memory.
        let is_host_pointer = match memory_type(ty, descriptor, side) {
            Some(CUmemorytype::CU_MEMORYTYPE_HOST) => true,
            Some(CUmemorytype::CU_MEMORYTYPE_UNIFIED) => with(1).is_some_and(|region| !self.is_known(region.address)),
            _ => false,
        };
        found.or_else(|| is_host_pointer.then(|| with(1)).flatten())
    }

    /// Whether the trace knows of memory at this address.
    fn is_known(&self, address: u64) -> bool {
        let plan = self.world.plan;
        plan.device.contains(address) || plan.host.contains(address) || self.world.placement.moved(address).is_some()
    }

    /// Images of a region: one, or the pieces of a long one.
    fn region_images(&self, region: &Region) -> Vec<Image<'t>> {
        let range = region.address..region.address.saturating_add(region.span().max(region.bytes()));
        let is_memory = |image: &Image| !matches!(image.content, Content::Arguments { .. }) && image.len > 0;
        let mut images = self.call.images_within(&range);
        images.retain(is_memory);
        images
    }

    /// The recorded bytes of a region, row behind row.
    fn packed(&self, region: &Region) -> Option<Cow<'t, [u8]>> {
        if region.bytes() == 0 {
            return Some(Cow::Borrowed(&[]));
        }
        let rows: Vec<Image> = self.region_images(region).into_iter().filter(|image| image.rows).collect();
        if rows.is_empty() {
            let span = self.call.memory(When::Entry, region.address, region.span())?;
            if region.is_dense() {
                return Some(span);
            }
            let at = |row: u64| (row - region.address) as usize;
            let rows = region.row_addresses().map(|row| &span[at(row)..at(row) + region.row_bytes as usize]);
            return Some(Cow::Owned(rows.collect::<Vec<_>>().concat()));
        }
        let mut bytes = rows.iter().map(|image| self.world.trace.bytes(image));
        if let (Some(Some(all)), 1) = (bytes.next(), rows.len()) {
            return (all.len() as u64 == region.bytes()).then_some(Cow::Borrowed(all));
        }
        let pieces: Option<Vec<&[u8]>> = rows.iter().map(|image| self.world.trace.bytes(image)).collect();
        let all = pieces?.concat();
        (all.len() as u64 == region.bytes()).then_some(Cow::Owned(all))
    }

    /// What a copy brought when it was recorded: offset into the packed bytes, length, content.
    fn expected(&self, region: &Region) -> Vec<(u64, u64, Content<'t>)> {
        let is_content = |image: &Image| !matches!(image.content, Content::Lost | Content::Pending);
        let images = self.region_images(region).into_iter().filter(is_content);
        images.map(|image| (image.address - region.address, image.len, image.content)).collect()
    }

    /// How many bytes were recorded from this address on.
    pub(super) fn image_length(&self, address: u64) -> u64 {
        let is_piece =
            |image: &Image| !image.rows && image.len > 0 && !matches!(image.content, Content::Arguments { .. });
        let mut end = address;
        while let Some(piece) = self.call.images_at(end).find(is_piece) {
            end = end.saturating_add(piece.len);
        }
        end - address
    }
}

fn range(name: &str, region: &Region) -> Result<Range<u64>, Refusal> {
    let end = region.address.checked_add(region.span());
    let end = end.ok_or_else(|| Refusal(format!("{name} reaches past the end of memory")))?;
    Ok(region.address..end)
}

/// Where the descriptor keeps the base address of the side: the host pointer itself, the unified address in the field
/// for device addresses, or the pointer in an operand of a batch.
fn base_pointer(fields: &'static [Field], index: usize, base: u32, here: Here) -> u32 {
    let unified = u64::from(CUmemorytype::CU_MEMORYTYPE_UNIFIED.0);
    let field = &fields[index];
    if !matches!(field.ty.form, Form::Pointer(_)) {
        return base + field.offset + std::mem::offset_of!(trace::api::structs::CUmemcpy3DOperand, op) as u32;
    }
    match either_side(fields, index) {
        Some([tag, device]) if here.load(base + tag.offset, 4) == Some(unified) => base + device.offset,
        _ => base + field.offset,
    }
}

/// The fields that say what memory it is beside a host pointer, and the address if that is of either side.
fn either_side(fields: &'static [Field], index: usize) -> Option<[&'static Field; 2]> {
    let prefix = fields[index].name.strip_suffix("Host")?;
    let named = |what: &str| fields.iter().find(|field| field.name.strip_prefix(prefix) == Some(what));
    Some([named("MemoryType")?, named("Device")?])
}

/// Where each row starts, and its bytes.
fn rows<'b>(region: &Region, packed: &'b [u8]) -> impl Iterator<Item = (u64, &'b [u8])> + use<'b> {
    region.row_addresses().zip(packed.chunks_exact(region.row_bytes.max(1) as usize))
}
