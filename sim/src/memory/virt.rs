//! Physical allocations and their mapping into reservations.

use std::collections::BTreeMap;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::pages::{self, GRANULE};
use super::shared_file::Part;
use super::table::{self, Access, Kind, Range};
use super::{allocate, reserve, shared_file};
use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::abi::structs::{AllocationProperties, Location};
use crate::base::registry::{Registry, handle_of};

/// Memory without an address.
struct Backing {
    at: u64,
    size: u64,
    properties: AllocationProperties,
    /// Where it may be exported by this process.
    part: Option<Part>,
    /// It is this process's, and not one that was imported.
    is_own: bool,
}

/// The object of a handle. It ends when it has been released as often as retained, and is mapped nowhere.
pub(crate) struct Physical {
    backing: Arc<Backing>,
    references: AtomicU32,
}

/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
pub(crate) const FILE_DESCRIPTOR: u32 = 1;

static PHYSICAL: Registry<Physical> = Registry::new();
/// By the numbers of their files and where they lie in those: what has been exported or imported, while it
/// lives.
static SHARED: Mutex<BTreeMap<(u64, u64), Weak<Backing>>> = Mutex::new(BTreeMap::new());

impl Drop for Backing {
    fn drop(&mut self) {
        pages::unmap(self.at, self.size);
        if self.is_own {
            allocate::uncharge(self.properties.location.id, self.size);
        }
    }
}

fn insert_physical(backing: Arc<Backing>) -> Handle {
    PHYSICAL.insert(Arc::new(Physical { backing, references: AtomicU32::new(1) }))
}

pub(crate) fn create(size: u64, properties: AllocationProperties) -> Result<Handle> {
    if size == 0 || !size.is_multiple_of(GRANULE) {
        return Err(Code::INVALID_VALUE);
    }
    let device = properties.location.id;
    allocate::charge(device, size)?;
    let is_shareable = properties.handle_types & FILE_DESCRIPTOR != 0;
    let marks = [properties.handle_types, properties.location.id as u32];
    let part = is_shareable.then(|| Part::new(size, marks)).flatten();
    let at = match &part {
        Some(part) => shared_file::map_anywhere(part.file, part.start, size),
        None => pages::aliasable(size),
    };
    let Some(at) = at else {
        allocate::uncharge(device, size);
        return Err(Code::OUT_OF_MEMORY);
    };
    Ok(insert_physical(Arc::new(Backing { at, size, properties, part, is_own: true })))
}

/// A file descriptor by which the memory can be had again.
pub(crate) fn export(handle: Handle) -> Result<i32> {
    let physical = PHYSICAL.get(handle).ok_or(Code::INVALID_VALUE)?;
    let part = physical.backing.part.as_ref().ok_or(Code::INVALID_VALUE)?;
    let file = part.open().ok_or(Code::OPERATING_SYSTEM)?;
    let number = shared_file::number(&file).ok_or(Code::OPERATING_SYSTEM)?;
    SHARED.lock().insert((number, part.start), Arc::downgrade(&physical.backing));
    Ok(file.into_raw_fd())
}

/// Another handle of what was exported as this file, here (driver 580, tests/gpu/facts/exported_in_process.c)
/// or by another process.
pub(crate) fn import(descriptor: i32) -> Result<Handle> {
    let file = shared_file::borrowed(descriptor).ok_or(Code::INVALID_VALUE)?;
    let (start, size, [handle_types, device]) = shared_file::part(&file).ok_or(Code::INVALID_VALUE)?;
    let number = shared_file::number(&file).ok_or(Code::INVALID_VALUE)?;
    let mut shared = SHARED.lock();
    if let Some(backing) = shared.get(&(number, start)).and_then(Weak::upgrade) {
        return Ok(insert_physical(backing));
    }
    let at = shared_file::map_anywhere(&file, start, size).ok_or(Code::OUT_OF_MEMORY)?;
    let location = Location { kind: 1, id: device as i32 };
    let properties = AllocationProperties { kind: 1, handle_types, location, windows: 0, flags: [0; 8] };
    let backing = Arc::new(Backing { at, size, properties, part: None, is_own: false });
    shared.insert((number, start), Arc::downgrade(&backing));
    Ok(insert_physical(backing))
}

pub(crate) fn properties(handle: Handle) -> Result<AllocationProperties> {
    PHYSICAL.get(handle).map(|p| p.backing.properties).ok_or(Code::INVALID_VALUE)
}

pub(crate) fn release(handle: Handle) -> Result {
    let physical = PHYSICAL.get(handle).ok_or(Code::INVALID_VALUE)?;
    if physical.references.load(Ordering::Acquire) == 0 {
        return Err(Code::INVALID_VALUE);
    }
    drop_reference(&physical);
    Ok(())
}

fn drop_reference(physical: &Arc<Physical>) {
    if physical.references.fetch_sub(1, Ordering::AcqRel) == 1 {
        PHYSICAL.remove(handle_of(physical)).ok();
    }
}

pub(crate) fn map(at: u64, size: u64, offset: u64, handle: Handle) -> Result {
    let physical = PHYSICAL.get(handle).ok_or(Code::INVALID_VALUE)?;
    let aligned = at.is_multiple_of(GRANULE) && size.is_multiple_of(GRANULE) && size > 0;
    if !aligned || offset != 0 || size > physical.backing.size || !reserve::contains(at, size) {
        return Err(Code::INVALID_VALUE);
    }
    let (id, device) = (table::next_id(), physical.backing.properties.location.id);
    let range =
        Range { start: at, size, kind: Kind::Mapped(handle), device, context: 0, id, access: Access::default() };
    table::insert(range).map_err(|_| Code::INVALID_VALUE)?;
    if !pages::alias(physical.backing.at, at, size) {
        table::remove(at, |_| true);
        pages::unalias(at, size);
        return Err(Code::OUT_OF_MEMORY);
    }
    physical.references.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// The mapped pieces that exactly fill a range, or none.
fn pieces(at: u64, size: u64) -> Result<Vec<Range>> {
    let pieces = table::read().overlapping(at, at + size);
    let mapped = pieces.iter().all(|r| matches!(r.kind, Kind::Mapped(_)));
    let total: u64 = pieces.iter().map(|r| r.size).sum();
    let exact = pieces.first().is_some_and(|r| r.start == at) && total == size;
    if mapped && exact { Ok(pieces) } else { Err(Code::INVALID_VALUE) }
}

pub(crate) fn unmap(at: u64, size: u64) -> Result {
    for piece in pieces(at, size)? {
        if table::remove(piece.start, |_| true).is_none() {
            continue;
        }
        pages::unalias(piece.start, piece.size);
        if let Kind::Mapped(handle) = piece.kind
            && let Some(physical) = PHYSICAL.get(handle)
        {
            drop_reference(&physical);
        }
    }
    Ok(())
}

/// By device, its access flags: 1 read, 2 write. The pages behind them are those of all devices.
pub(crate) fn set_access(at: u64, size: u64, granted: &[(i32, u32)]) -> Result {
    let grant = |access: &mut Access| granted.iter().for_each(|(device, flags)| access.set(*device, *flags));
    for piece in pieces(at, size)? {
        let mut access = piece.access;
        grant(&mut access);
        let flags = access.flags(None);
        if !pages::protect(piece.start, piece.size, flags & 1 != 0, flags & 2 != 0) {
            return Err(Code::INVALID_VALUE);
        }
    }
    table::set_access(at, at + size, grant);
    Ok(())
}

pub(crate) fn access(at: u64, device: i32) -> Result<u64> {
    let ranges = table::read();
    let range = ranges.find(at).filter(|r| matches!(r.kind, Kind::Mapped(_))).ok_or(Code::INVALID_VALUE)?;
    Ok(range.access.flags(Some(device)).into())
}

/// The allocation mapped at an address, with one more reference.
pub(crate) fn retain(at: u64) -> Result<Handle> {
    let kind = table::read().find(at).map(|r| r.kind);
    let Some(Kind::Mapped(handle)) = kind else { return Err(Code::INVALID_VALUE) };
    let physical = PHYSICAL.get(handle).ok_or(Code::INVALID_VALUE)?;
    physical.references.fetch_add(1, Ordering::AcqRel);
    Ok(handle)
}
