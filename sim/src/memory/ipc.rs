//! Device memory shared with other processes by 64-byte handles. Memory in the same granule is shared too, as
//! with the real driver.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::fd::AsRawFd;

use parking_lot::Mutex;

use super::table::{self, Access, Kind, Range};
use super::{allocate, shared_file};
use crate::abi::Handle;
use crate::abi::code::{Code, Result};

/// A handle that the application passes on as bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpcHandle {
    mark: [u8; 8],
    process: u32,
    descriptor: i32,
    number: u64,
    pub offset: u64,
    pub size: u64,
    unused: [u64; 3],
}

impl IpcHandle {
    pub(crate) fn new(mark: &[u8; 8], file: &File, offset: u64, size: u64) -> Option<IpcHandle> {
        let number = shared_file::number(file)?;
        let (process, descriptor) = (std::process::id(), file.as_raw_fd());
        Some(IpcHandle { mark: *mark, process, descriptor, number, offset, size, unused: [0; 3] })
    }

    /// The file, if it is there still. A process cannot open what is its own (driver 580,
    /// tests/gpu/facts/exported_in_process.c).
    pub(crate) fn open(&self, mark: &[u8; 8]) -> Result<File> {
        if self.mark != *mark {
            return Err(Code::INVALID_VALUE);
        }
        if self.process == std::process::id() {
            return Err(Code::INVALID_CONTEXT);
        }
        let file = shared_file::reopen(self.process, self.descriptor).ok_or(Code::INVALID_VALUE)?;
        let is_it = shared_file::number(&file) == Some(self.number);
        if is_it { Ok(file) } else { Err(Code::INVALID_VALUE) }
    }
}

const MEMORY: &[u8; 8] = b"sim-mem\0";

/// Blocks that others may map, by their start.
static EXPORTED: Mutex<BTreeMap<u64, File>> = Mutex::new(BTreeMap::new());
/// Blocks of others that are mapped here: by the number of the file where, and how often it was opened.
static OPENED: Mutex<BTreeMap<u64, (u64, u32)>> = Mutex::new(BTreeMap::new());

pub(crate) fn export(at: u64) -> Result<IpcHandle> {
    let range = table::read().find(at).copied().filter(|r| r.kind == Kind::Device).ok_or(Code::INVALID_VALUE)?;
    let (start, size) = allocate::block(&range);
    let mut exported = EXPORTED.lock();
    if let Entry::Vacant(place) = exported.entry(start) {
        let file = shared_file::create(size).ok_or(Code::OUT_OF_MEMORY)?;
        if !table::while_idle(|| shared_file::take_over(&file, start, size)) {
            return Err(Code::OUT_OF_MEMORY);
        }
        place.insert(file);
    }
    IpcHandle::new(MEMORY, &exported[&start], range.start - start, size).ok_or(Code::OPERATING_SYSTEM)
}

/// The block is gone.
pub(crate) fn forget(start: u64) {
    EXPORTED.lock().remove(&start);
}

/// Whether the pages there are those of a file.
pub(crate) fn is_exported(at: u64) -> bool {
    let exported = EXPORTED.lock();
    let Some((start, file)) = exported.range(..=at).next_back() else { return false };
    file.metadata().is_ok_and(|about| at - start < about.len())
}

/// Where it is here; once, however often it is opened.
pub(crate) fn open(handle: &IpcHandle, device: i32, context: Handle) -> Result<u64> {
    let file = handle.open(MEMORY)?;
    let mut opened = OPENED.lock();
    if let Some((start, times)) = opened.get_mut(&handle.number) {
        *times += 1;
        return Ok(*start + handle.offset);
    }
    let (start, size) = (allocate::addresses(handle.size).ok_or(Code::OUT_OF_MEMORY)?, handle.size);
    if !shared_file::map(&file, start, size) {
        return Err(Code::OUT_OF_MEMORY);
    }
    let (id, kind) = (table::next_id(), Kind::Imported);
    table::insert(Range { start, size, kind, device, context, id, access: Access::OF_ALL })?;
    opened.insert(handle.number, (start, 1));
    Ok(start + handle.offset)
}

pub(crate) fn close(at: u64) -> Result {
    let range = table::read().find(at).copied().filter(|r| r.kind == Kind::Imported).ok_or(Code::INVALID_VALUE)?;
    let mut opened = OPENED.lock();
    let number = opened.iter().find(|(_, (start, _))| *start == range.start).map(|(number, _)| *number);
    let number = number.ok_or(Code::INVALID_VALUE)?;
    let times = &mut opened.get_mut(&number).expect("just found").1;
    *times -= 1;
    if *times == 0 {
        opened.remove(&number);
        table::remove(range.start, |_| true).into_iter().for_each(allocate::release);
    }
    Ok(())
}
