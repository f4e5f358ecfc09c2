//! The host side of copies: payloads in, results out.
//!
//! A payload is read straight from the trace if it lies there in one piece. Pinned memory is at its recorded
//! address (or translated), so copies from and to it use it: a later copy must find the device's writes.

use crate::call::build::{Builder, FieldContext};
use crate::call::frame::Hazard;
use crate::call::readback::Readback;
use crate::memory::buffer::{HostBuffer, Payload, Refusal};
use crate::memory::live_address::LiveAddress;
use crate::plan::action::between_either;
use crate::plan::graphs::captures::memory_type;
use std::ops::Range;
use trace::api::copies::{Region, device_region, element_bytes, region};
use trace::api::enums::{CUmemcpy3DOperandType, CUmemorytype};
use trace::api::roles::{Class, Field, Side};
use trace::api::structs::CUmemcpy3DOperand;
use trace::api::types::{CUarray, CUdeviceptr, Form, Kind, Type, Typed};
use trace::base::bytes::u64_at;
use trace::read::call::{Content, Image, When};

/// For what nothing is copied from or to: no memory is here, and the driver does not take it for none.
const NOWHERE: u64 = 64;

impl<'t> Builder<'_, 't> {
    /// Live memory that holds the recorded bytes of a region; its first address.
    pub(crate) fn source(&mut self, name: &'static str, recorded: Region) -> Result<LiveAddress, Refusal> {
        if self.is_managed(&recorded) {
            return self.managed(name, &recorded);
        }
        let host = self.session.placement.host(&range(name, &recorded)?);
        let Some(bytes) = self.packed(&recorded)? else {
            // A node is made long before it runs: nobody could know then what it would read.
            return match host {
                Some(live) => {
                    self.frame.sources.push(live..live + recorded.span());
                    Ok(LiveAddress::host(live))
                }
                None if self.function.class == Class::graph => {
                    self.frame.retain = true;
                    let memory = HostBuffer::zeroed(recorded.span() as usize)?;
                    let live = LiveAddress::from_buffer(&memory);
                    self.own(memory);
                    Ok(live)
                }
                None => Err(self.missing(name)),
            };
        };
        let layout = self.layout(name, &recorded);
        let bytes = self.payload(bytes, layout)?;
        let Some(live) = host else {
            if self.makes_node() && self.session.trace.follows_host_memory() {
                return self.source_of_node(&recorded, bytes);
            }
            if let (Payload::Borrowed(bytes), true) = (&bytes, recorded.is_dense()) {
                return Ok(LiveAddress::read_only(bytes));
            }
            let memory = laid_out(&recorded, bytes)?;
            let live = LiveAddress::from_buffer(&memory);
            if self.makes_node() {
                self.frame.retain = true;
                self.own(memory);
            } else {
                self.frame.lent.push(memory);
            }
            return Ok(live);
        };
        self.write_host(&recorded, live, bytes);
        self.frame.sources.push(live..live + recorded.span());
        Ok(LiveAddress::host(live))
    }

    /// Memory for a graph to read whenever it runs. What is there then is told as all is that the CPU writes;
    /// what was there when the node was made matters only if it could not be followed.
    fn source_of_node(&mut self, recorded: &Region, bytes: Payload<'t>) -> Result<LiveAddress, Refusal> {
        let live = self.graph_memory(recorded)?;
        let is_lost = |image: Image| {
            let meets = image.address < recorded.address + recorded.span()
                && recorded.address < image.address.saturating_add(image.len.max(1));
            meets && matches!(image.content, Content::Lost)
        };
        if self.call.written().flat_map(|written| written.images()).any(is_lost) {
            self.write_host(recorded, live, bytes);
        }
        Ok(LiveAddress::host(live))
    }

    /// Whether the call makes a graph node, now or when its capture ends.
    pub(super) fn makes_node(&self) -> bool {
        self.function.class == Class::graph || self.session.plan.graph_nodes.copies.contains(&self.call.number)
    }

    fn graph_memory(&mut self, recorded: &Region) -> Result<u64, Refusal> {
        let live =
            self.session.graph_memory.hold(&(recorded.address..recorded.address.saturating_add(recorded.span())))?;
        self.frame.sources.push(live..live + recorded.span());
        Ok(live)
    }

    /// Has pinned memory, which is at `live` here, hold what the application's CPU had written there by the
    /// time of this call.
    fn write_host(&mut self, recorded: &Region, live: u64, bytes: Payload<'t>) {
        let to = Region { address: live, ..*recorded };
        self.frame.hazards.push(Hazard::Write { to, recorded: recorded.address, bytes });
    }

    /// Live memory to take the bytes of a region; its first address.
    pub(crate) fn sink(&mut self, name: &'static str, recorded: Region) -> Result<LiveAddress, Refusal> {
        if self.is_managed(&recorded) {
            return self.managed(name, &recorded);
        }
        let expected = self.expected(&recorded);
        let memory = range(name, &recorded)?;
        let placed = self.session.placement.host(&memory);
        let is_placed = placed.is_some();
        let (live, memory) = match placed {
            Some(live) if self.makes_node() && self.is_result(&recorded) => return Ok(LiveAddress::host(live)),
            Some(live) => {
                self.frame.hazards.push(Hazard::Overwrite(live..live + recorded.span()));
                (live, None)
            }
            // A node copies there whenever its graph runs; what it brought is compared when that has been
            // waited for.
            None if self.makes_node() && self.region_images(&recorded).is_empty() => {
                if !self.is_result(&recorded) {
                    self.tally.not_compared(self.call.number);
                }
                return self.graph_memory(&recorded).map(LiveAddress::host);
            }
            None => match self.session.host(&memory) {
                Some(live) => (live, None),
                None => {
                    let len = recorded.span() as usize;
                    let memory =
                        if recorded.is_dense() { HostBuffer::unwritten(len) } else { HostBuffer::zeroed(len) }?;
                    (memory.address(), Some(memory))
                }
            },
        };
        let is_shared = memory.is_none() && !is_placed;
        let region = Region { address: live, ..recorded };
        let (words, since) = (self.layout(name, &recorded), self.session.translation.now());
        self.frame.readbacks.push(Readback { name: name.into(), region, memory, is_shared, expected, words, since });
        Ok(LiveAddress::host(live))
    }

    /// Whether it is compared what graphs bring there, when that has been waited for or a callback takes it.
    fn is_result(&self, recorded: &Region) -> bool {
        self.region_images(recorded).is_empty() && self.session.plan.comparability.results.contains(&recorded.address)
    }

    /// Whether the copy took memory for the host's that is the device's in a replay.
    fn is_managed(&self, recorded: &Region) -> bool {
        let (plan, translation) = (self.session.plan, self.session.translation);
        let is_host = plan.addresses.host.contains(recorded.address) || !self.region_images(recorded).is_empty();
        !is_host && (plan.addresses.device.contains(recorded.address) || translation.live(recorded.address).is_some())
    }

    /// Then it is one between addresses of either side.
    fn managed(&mut self, name: &str, recorded: &Region) -> Result<LiveAddress, Refusal> {
        let why = || Refusal(format!("{name} is managed memory, and this copy has no equivalent for it"));
        self.frame.instead = Some(between_either(self.function).ok_or_else(why)?);
        self.bound(name, range(name, recorded)?)
    }

    /// An address that may be of either side. It is the host's if the recorder found bytes there. `len`: as
    /// many as the call says; and if only the driver knows that, how many there may be.
    pub(crate) fn unified(
        &mut self,
        name: &'static str,
        address: u64,
        (len, most): (Option<u64>, Option<u64>),
        writes: bool,
    ) -> Result<LiveAddress, Refusal> {
        let reaches = most.ok_or_else(|| Refusal(format!("the size of {name} is unknown")))?;
        let region = Region::dense(address, reaches);
        if self.image_length(address) > 0 {
            return if writes { self.sink(name, region) } else { self.source(name, region) };
        }
        // Pageable memory, of which nothing is recorded with the call: at its own address there is none here.
        if writes
            && len.is_some()
            && self.session.plan.graph_nodes.host_memory.contains(address)
            && !self.is_known(address)
        {
            return self.sink(name, region);
        }
        self.bound(name, range(name, &region)?)
    }

    /// Arrays of addresses, each of either side, and of how many bytes there are at each.
    pub(crate) fn each(
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
        let mut live = Vec::with_capacity(addresses.len());
        for (address, size) in addresses.chunks_exact(8).zip(sizes.chunks_exact(8)) {
            let size = Some(u64_at(size, 0));
            live.extend(self.unified(name, u64_at(address, 0), (size, size), writes)?.word().to_le_bytes());
        }
        Ok(self.own(HostBuffer::from_bytes(&live)?))
    }

    /// One side of a copy descriptor of type `ty` at `base`, unless it is an array.
    pub(crate) fn copy_side(
        &mut self,
        ty: &'static Type,
        fields: &'static [Field],
        index: usize,
        side: Side,
        base: u32,
        here: FieldContext,
    ) -> Result<(), Refusal> {
        let Some(descriptor) = here.recorded.get(base as usize..(base + ty.size) as usize) else { return Ok(()) };
        let (name, place) = (fields[index].name, base_pointer(fields, index, base, here));
        let Some(place) = place else { return Ok(()) };
        let start = here.load(base + place.offset, place.ty.size).unwrap_or(0);
        let unified = region(ty, descriptor, side, |array| self.element(array));
        let Some(recorded) = unified.or_else(|| device_region(ty, descriptor, side)) else {
            // It copies nothing, or is bound to be refused.
            let live =
                self.session.placement.bound(&(start..start.saturating_add(1))).map_or(NOWHERE, LiveAddress::word);
            self.write(here, base + place.offset, place.ty.size, if start == 0 { 0 } else { live });
            return Ok(());
        };
        let is_managed = self.is_managed(&recorded);
        let live = match (self.is_host_side(ty, descriptor, side, &recorded), side) {
            (false, _) => self.bound(name, range(name, &recorded)?)?,
            (true, _) if is_managed => self.bound(name, range(name, &recorded)?)?,
            (true, Side::Source) => self.source(name, recorded)?,
            (true, Side::Destination) => self.sink(name, recorded)?,
        };
        // Start and pitch stay as they are, so the base moves with the first byte.
        let moved = start.wrapping_add(live.word().wrapping_sub(recorded.address));
        let tagged = either_side(fields, index).filter(|_| is_managed && matches!(place.ty.form, Form::Pointer(_)));
        match tagged {
            Some([tag, device]) => {
                self.write(here, base + tag.offset, tag.ty.size, u64::from(CUmemorytype::CU_MEMORYTYPE_UNIFIED.0));
                self.write(here, base + device.offset, device.ty.size, moved);
            }
            None if place.ty.size < 8 && moved >> 32 != 0 => {
                return Err(Refusal(format!("{name} is {moved:#x} in the replay, which does not fit into 4 bytes")));
            }
            None => self.write(here, base + place.offset, place.ty.size, moved),
        }
        if self.function.class == Class::graph {
            self.frame.retain = true;
        }
        Ok(())
    }

    /// Whether the region is memory of the host that no other call has named: a host pointer is, even if
    /// nothing was recorded of what it points to, and so is a unified address that is no device memory.
    fn is_host_side(&self, ty: &'static Type, descriptor: &[u8], side: Side, region: &Region) -> bool {
        let found = self.region_images(region).iter().map(|image| image.len).sum::<u64>();
        match memory_type(ty, descriptor, side) {
            Some(CUmemorytype::CU_MEMORYTYPE_HOST) => true,
            Some(CUmemorytype::CU_MEMORYTYPE_DEVICE) => false,
            Some(CUmemorytype::CU_MEMORYTYPE_UNIFIED) if !self.is_known(region.address) => true,
            // More than its own: what describes the copy may lie there, too.
            _ => found >= region.bytes(),
        }
    }

    /// Bytes of an element of a recorded array, as the live one has them.
    fn element(&self, array: CUarray) -> Option<u64> {
        let live = self.session.objects.live(Kind::Array, array.0 as u64)?;
        let about = self.session.driver.array_descriptor(live).ok()?;
        element_bytes(about.Format, about.NumChannels)
    }

    /// Whether the trace knows of memory at this address.
    fn is_known(&self, address: u64) -> bool {
        let plan = self.session.plan;
        plan.addresses.device.contains(address)
            || plan.addresses.host.contains(address)
            || self.session.placement.moved(address).is_some()
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
    fn packed(&self, region: &Region) -> Result<Option<Payload<'t>>, Refusal> {
        if region.bytes() == 0 {
            return Ok(Some(Payload::Borrowed(&[])));
        }
        let rows: Vec<Image> = self.region_images(region).into_iter().filter(|image| image.rows).collect();
        if rows.is_empty() {
            let pieces = self.call.pieces(When::Entry, region.address, region.span());
            let span = pieces.map(|pieces| Payload::joined(&pieces)).transpose()?;
            let span = match span {
                Some(span) if !region.is_dense() => span,
                whole => return Ok(whole),
            };
            let at = |row: u64| (row - region.address) as usize;
            let rows = region.row_addresses().map(|row| &span[at(row)..at(row) + region.row_bytes as usize]);
            return HostBuffer::joined(&rows.collect::<Vec<_>>()).map(|rows| Some(Payload::Own(rows)));
        }
        let pieces: Option<Vec<&[u8]>> = rows.iter().map(|image| self.session.trace.bytes(image)).collect();
        let is_all = |pieces: &Vec<&[u8]>| pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() == region.bytes();
        pieces.filter(is_all).map(|pieces| Payload::joined(&pieces)).transpose()
    }

    /// What a copy brought when it was recorded: offset into the packed bytes, length, content. What describes the copy
    /// may have lain there before.
    fn expected(&self, region: &Region) -> Vec<(u64, u64, Content<'t>)> {
        let is_content =
            |image: &Image| image.when == When::Return && !matches!(image.content, Content::Lost | Content::Pending);
        let images = self.region_images(region).into_iter().filter(is_content);
        images.map(|image| (image.address - region.address, image.len, image.content)).collect()
    }

    /// How many bytes were recorded from this address on.
    pub(super) fn image_length(&self, address: u64) -> u64 {
        let is_piece =
            |image: &Image| !image.rows && image.len > 0 && !matches!(image.content, Content::Arguments { .. });
        let mut end = address;
        while let Some(piece) = self.call.images_at(end).find(is_piece) {
            // A forged one may end nowhere.
            let Some(next) = end.checked_add(piece.len) else { break };
            end = next;
        }
        end - address
    }
}

/// The packed bytes of a region as they lie in memory.
fn laid_out(region: &Region, bytes: Payload) -> Result<HostBuffer, Refusal> {
    let is_whole = region.is_dense() && bytes.len() as u64 == region.span();
    let bytes = match bytes {
        Payload::Own(memory) if is_whole => return Ok(memory),
        bytes => bytes,
    };
    let mut memory = HostBuffer::zeroed(region.span() as usize)?;
    for (row, bytes) in region.row_addresses().zip(bytes.chunks_exact(region.row_bytes.max(1) as usize)) {
        memory.write((row - region.address) as usize, bytes);
    }
    Ok(memory)
}

fn range(name: &str, region: &Region) -> Result<Range<u64>, Refusal> {
    let end = region.address.checked_add(region.span());
    let end = end.ok_or_else(|| Refusal(format!("{name} ends past the end of memory")))?;
    Ok(region.address..end)
}

/// The field in which the descriptor keeps the base address of the side, with its offset in the descriptor:
/// the host pointer itself, the field for device addresses, or the pointer in an operand of a batch. None of
/// an array.
fn base_pointer(fields: &'static [Field], index: usize, base: u32, here: FieldContext) -> Option<Field> {
    let field = &fields[index];
    if !matches!(field.ty.form, Form::Pointer(_)) {
        let kind = CUmemcpy3DOperandType(here.load(base + field.offset, 4)? as u32);
        let offset = field.offset + std::mem::offset_of!(CUmemcpy3DOperand, op) as u32;
        let pointer = Field { offset, ty: CUdeviceptr::TYPE, ..*field };
        return (kind == CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER).then_some(pointer);
    }
    let [tag, device] = either_side(fields, index)?;
    match CUmemorytype(here.load(base + tag.offset, 4)? as u32) {
        CUmemorytype::CU_MEMORYTYPE_HOST => Some(*field),
        CUmemorytype::CU_MEMORYTYPE_DEVICE | CUmemorytype::CU_MEMORYTYPE_UNIFIED => Some(*device),
        _ => None,
    }
}

/// The fields that say what memory it is beside a host pointer, and the address if that is of either side.
fn either_side(fields: &'static [Field], index: usize) -> Option<[&'static Field; 2]> {
    let prefix = fields[index].name.strip_suffix("Host")?;
    let named = |what: &str| fields.iter().find(|field| field.name.strip_prefix(prefix) == Some(what));
    Some([named("MemoryType")?, named("Device")?])
}
