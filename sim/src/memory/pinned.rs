//! Host memory that devices can reach.

use std::collections::BTreeMap;

use parking_lot::{Mutex, RwLock};

use super::arena::{Granule, SMALL};
use super::pages::GRANULE;
use super::table::{self, Access, Kind, Range};
use super::{allocate, pages};
use crate::abi::Handle;
use crate::abi::code::{Code, Result};

const PAGE: u64 = 4096;
const ALLOCATE_FLAGS: u32 = 0x7;
const REGISTER_FLAGS: u32 = 0xf;

pub(crate) fn allocate(size: u64, flags: u32, device: i32, context: Handle) -> Result<u64> {
    if size == 0 || flags & !ALLOCATE_FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let at = if size > SMALL { viewed(size.next_multiple_of(PAGE)) } else { allocate_small(size) };
    let at = at.ok_or(Code::OUT_OF_MEMORY)?;
    let (id, kind) = (table::next_id(), Kind::Pinned(flags));
    table::insert(Range { start: at, size, kind, device, context, id, access: Access::OF_ALL })?;
    Ok(at)
}

/// Small ones share pages, as the driver has it.
static GRANULES: Mutex<BTreeMap<u64, Granule>> = Mutex::new(BTreeMap::new());

fn allocate_small(size: u64) -> Option<u64> {
    let mut granules = GRANULES.lock();
    if let Some(at) = granules.values_mut().find_map(|granule| granule.take(size)) {
        return Some(at);
    }
    let start = viewed(GRANULE)?;
    granules.entry(start).or_insert_with(|| Granule::new(start)).take(size)
}

fn viewed(size: u64) -> Option<u64> {
    let at = pages::aliasable(size)?;
    let view = pages::second_view(at, size)?;
    VIEWS.write().insert(at, (at + size, view));
    Some(at)
}

/// Where the device reaches pinned memory, by its start: its end and the second view. As with DMA, what the
/// device writes does not show in the page table of the host's own view.
static VIEWS: RwLock<BTreeMap<u64, (u64, u64)>> = RwLock::new(BTreeMap::new());

/// Where the device reads and writes an address.
pub(crate) fn as_device(address: u64) -> u64 {
    let views = VIEWS.read();
    let around = views.range(..=address).next_back();
    around.filter(|(_, (end, _))| address < *end).map_or(address, |(start, (_, view))| view + (address - start))
}

/// The range has left the table.
pub(crate) fn release(range: Range) {
    let start = range.start;
    if range.size > SMALL {
        return unmap(start);
    }
    let mut granules = GRANULES.lock();
    let around = granules.range_mut(..=start).next_back();
    if let Some((granule, true)) = around.map(|(at, granule)| (*at, granule.give(start, range.size))) {
        granules.remove(&granule);
        unmap(granule);
    }
}

fn unmap(at: u64) {
    if let Some((end, view)) = VIEWS.write().remove(&at) {
        pages::unmap(at, end - at);
        pages::unmap(view, end - at);
    }
}

pub(crate) fn free(at: u64) -> Result {
    let range = table::remove(at, |r| matches!(r.kind, Kind::Pinned(_))).ok_or(Code::INVALID_VALUE)?;
    allocate::release(range);
    Ok(())
}

pub(crate) fn register(at: u64, size: u64, flags: u32, device: i32, context: Handle) -> Result {
    if size == 0 || at == 0 || flags & !REGISTER_FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    if !mapped(at, size) {
        return Err(Code::INVALID_VALUE);
    }
    let (id, kind) = (table::next_id(), Kind::Registered(flags));
    let range = Range { start: at, size, kind, device, context, id, access: Access::OF_ALL };
    table::insert(range).map_err(|_| Code::HOST_MEMORY_ALREADY_REGISTERED)
}

/// Whether the process has pages there. (Whether they can be read, mincore does not tell.)
fn mapped(at: u64, size: u64) -> bool {
    let start = at & !(PAGE - 1);
    let length = (at + size).next_multiple_of(PAGE) - start;
    let mut residence = vec![0u8; (length / PAGE) as usize];
    // SAFETY: the vector has a byte for every page asked about; mincore only looks.
    unsafe { libc::mincore(start as *mut _, length as usize, residence.as_mut_ptr()) == 0 }
}

pub(crate) fn unregister(at: u64) -> Result {
    match table::remove(at, |r| matches!(r.kind, Kind::Registered(_))) {
        Some(_) => Ok(()),
        None => Err(Code::HOST_MEMORY_NOT_REGISTERED),
    }
}

/// The flags that the memory around an address was made with.
pub(crate) fn flags(at: u64) -> Result<u32> {
    match table::read().find(at).map(|r| r.kind) {
        Some(Kind::Pinned(flags) | Kind::Registered(flags)) => Ok(flags),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// The device's address of an address of the host: the same one.
pub(crate) fn device_pointer(at: u64) -> Result<u64> {
    let ranges = table::read();
    match ranges.find(at) {
        Some(range) if range.kind.host() => Ok(at),
        _ => Err(Code::INVALID_VALUE),
    }
}
