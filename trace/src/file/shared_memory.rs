//! The System V shared memory into which a process writes its open chunks. Nobody can truncate it, as a
//! mapping of the trace can be (which would end the process by SIGBUS), and it outlives its process, as
//! private memory does not.
//!
//! Each of these chunks has a slot in the trace, a free segment of the same size. The id of the segment says
//! where the chunk is:
//!
//! ```text
//! low  u32 the memory's id (shmget), or PRIVATE
//!      u32 where in the memory the chunk begins, in pages
//! high u64 token
//! ```
//!
//! A process that ends by `exit` and leaves the memory to `cutrace record` also copies the chunk to its slot,
//! in case the memory is removed: the records behind the header of the free segment, and the chunk's own
//! header, sealed, in the last 64 bytes, which no record in a chunk reaches.
//!
//! The first page of the memory identifies its owner, because ids are reused: magic, token, device and inode
//! of the trace, 8 bytes each. At 64 are the words that ask its process to pause (`control`), at 2048 the
//! original path of the trace, terminated by a zero.

use crate::base::bytes::u64_at;
use crate::file::segment::{Header, Kind, PAGE};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"CUTRMEM\n";
/// Bytes of the first page that count.
pub const OWNER: usize = 32;
/// Where in the first page the path of the trace is.
pub const PATH_AT: usize = 2048;
/// In place of an id: memory of the process alone, gone with it.
pub const PRIVATE: i32 = -1;

/// The place in shared memory of the chunk whose slot in the trace is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Id of the memory (shmget), or [`PRIVATE`].
    pub memory: i32,
    /// Position in the memory, in pages.
    pub page: u32,
    /// Not 0.
    pub token: u64,
}

impl Place {
    /// The place as the id of a free segment.
    pub fn id(self) -> u128 {
        u128::from(self.token) << 64 | u128::from(self.page) << 32 | u128::from(self.memory as u32)
    }

    /// None if the segment is no place of a chunk.
    pub fn from_header(header: &Header) -> Option<Place> {
        let token = (header.id >> 64) as u64;
        let place = Place { memory: header.id as i32, page: (header.id >> 32) as u32, token };
        (header.kind == Kind::Free && token != 0).then_some(place)
    }

    /// Position in the memory, in bytes.
    pub fn offset(self) -> u64 {
        u64::from(self.page) * PAGE
    }
}

/// The contents of the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The number that all places in this memory contain.
    pub token: u64,
    /// Device of the trace (`st_dev`).
    pub device: u64,
    /// Inode of the trace (`st_ino`).
    pub inode: u64,
}

impl Owner {
    /// The start of the memory's first page.
    pub fn encode(self) -> [u8; OWNER] {
        let mut out = [0; OWNER];
        out[..8].copy_from_slice(&MAGIC);
        for (at, word) in [(8, self.token), (16, self.device), (24, self.inode)] {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn decode(bytes: &[u8; OWNER]) -> Option<Owner> {
        let owner = Owner { token: u64_at(bytes, 8), device: u64_at(bytes, 16), inode: u64_at(bytes, 24) };
        (bytes[..8] == MAGIC).then_some(owner)
    }
}

/// The path for the first page; nothing of one that is too long.
pub fn path_bytes(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() < PAGE as usize - PATH_AT { bytes } else { &[] }
}

/// Shared memory of a trace that no process maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unattached {
    id: i32,
    /// Bytes of the memory.
    pub bytes: u64,
    /// The trace to which the memory belongs.
    pub owner: Owner,
    /// Where the trace was made, if the recorder has said it.
    pub path: Option<PathBuf>,
}

impl Unattached {
    /// All of this user's. Such a process as has just made some, and not said whose it is, is passed over.
    pub fn all() -> io::Result<Vec<Unattached>> {
        let list = std::fs::read_to_string("/proc/sysvipc/shm")?;
        // SAFETY: asks.
        let user = u64::from(unsafe { libc::geteuid() });
        let one = |line: &str| {
            let numbers: Vec<u64> =
                line.split_ascii_whitespace().map(|word| word.parse().unwrap_or(u64::MAX)).collect();
            let [_, id, _, bytes, _, _, attached, uid, ..] = numbers[..] else { return None };
            let is_ours = attached == 0 && (user == 0 || uid == user);
            let id = i32::try_from(id).ok().filter(|_| is_ours)?;
            let memory = Attached::any(id, libc::SHM_RDONLY).ok().flatten()?;
            let mut path = [0; PAGE as usize - PATH_AT];
            memory.read(PATH_AT as u64, &mut path)?;
            let path = path.split(|byte| *byte == 0).next().filter(|path| path.starts_with(b"/"));
            let path = path.map(|path| PathBuf::from(OsStr::from_bytes(path)));
            Some(Unattached { id, bytes, owner: memory.owner, path })
        };
        Ok(list.lines().skip(1).filter_map(one).collect())
    }

    /// Gives it back, if it is still this memory, and nobody's.
    pub fn free(&self) -> io::Result<()> {
        // SAFETY: all zeros are a valid struct of numbers, which the call fills.
        let attached = unsafe {
            let mut about: libc::shmid_ds = std::mem::zeroed();
            if libc::shmctl(self.id, libc::IPC_STAT, &mut about) == 0 { about.shm_nattch } else { 0 }
        };
        let memory = Attached::any(self.id, libc::SHM_RDONLY)?.filter(|memory| memory.owner == self.owner);
        let memory = memory.filter(|_| attached == 0).ok_or_else(|| io::Error::other("it is in use again"))?;
        // SAFETY: a system call on memory that is mapped here.
        match unsafe { libc::shmctl(memory.place.memory, libc::IPC_RMID, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Shared memory that this process maps.
pub(crate) struct Attached {
    base: *const u8,
    len: u64,
    owner: Owner,
    pub(crate) place: Place,
}

impl Attached {
    /// None if there is no such memory here, or it is not what the place means.
    pub(crate) fn attach(place: Place) -> Option<Attached> {
        Attached::attach_with(place, libc::SHM_RDONLY).ok().flatten()
    }

    /// The same, mapped for writing. An error is that nobody but its owner may.
    pub(crate) fn to_write(place: Place) -> io::Result<Option<Attached>> {
        match Attached::attach_with(place, 0) {
            Err(error) if error.raw_os_error() != Some(libc::EACCES) => Ok(None),
            attached => attached,
        }
    }

    fn attach_with(place: Place, flags: i32) -> io::Result<Option<Attached>> {
        if place.memory < 0 {
            return Ok(None);
        }
        let found = Attached::any(place.memory, flags)?.filter(|found| found.owner.token == place.token);
        Ok(found.map(|mut found| {
            found.place = place;
            found
        }))
    }

    /// Of whatever trace.
    fn any(id: i32, flags: i32) -> io::Result<Option<Attached>> {
        let place = Place { memory: id, page: 0, token: 0 };
        // SAFETY: a fresh mapping at a place that Linux chooses.
        let base = unsafe { libc::shmat(place.memory, std::ptr::null(), flags) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zeros are a valid struct of numbers, which the call fills. An id keeps its meaning, and
        // its memory its size, while it is mapped.
        let len = unsafe {
            let mut about: libc::shmid_ds = std::mem::zeroed();
            if libc::shmctl(place.memory, libc::IPC_STAT, &mut about) == 0 { about.shm_segsz as u64 } else { 0 }
        };
        let owner = Owner { token: 0, device: 0, inode: 0 };
        let mut attached = Attached { base: base.cast(), len, owner, place };
        let mut first = [0; OWNER];
        let owner = attached.read(0, &mut first).and_then(|()| Owner::decode(&first));
        Ok(owner.map(|owner| {
            attached.owner = owner;
            attached
        }))
    }

    /// Whether it belongs to the trace with this device and inode.
    pub(crate) fn is_of(&self, trace: (u64, u64)) -> bool {
        (self.owner.device, self.owner.inode) == trace
    }

    /// An address in it.
    pub(crate) fn address_of(&self, offset: usize) -> *const u8 {
        self.base.wrapping_add(offset)
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `bytes` with what is at an offset, which its process may be changing; none if the memory is not
    /// as long.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        let end = offset.checked_add(bytes.len() as u64)?;
        if end > self.len {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as `self`. Bytes that change meanwhile are any
        // bytes; who reads them checks.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(offset as usize), bytes.as_mut_ptr(), bytes.len()) };
        Some(())
    }

    /// Gives the memory back, if it belongs to the trace with this device and inode: nobody finds it any
    /// more.
    pub(crate) fn remove(&self, trace: (u64, u64)) {
        if self.is_of(trace) {
            // SAFETY: a system call; the memory itself lives until the last mapping of it is gone.
            let _gone_already = unsafe { libc::shmctl(self.place.memory, libc::IPC_RMID, std::ptr::null_mut()) };
        }
    }
}

/// Gives back all memory of the trace with this device and inode that no process has mapped: what was made by a
/// process that ended before its trace named it.
pub fn remove_left(trace: (u64, u64)) {
    /// linux/shm.h: the highest index in use, and what is at one.
    const SHM_INFO: i32 = 14;
    const SHM_STAT: i32 = 13;
    // SAFETY: all zeros are a valid struct of numbers, which the calls fill; what they fill for SHM_INFO is shorter.
    unsafe {
        let mut about: libc::shmid_ds = std::mem::zeroed();
        for index in 0..=libc::shmctl(0, SHM_INFO, &mut about) {
            let memory = libc::shmctl(index, SHM_STAT, &mut about);
            if memory < 0 || about.shm_nattch > 0 || about.shm_perm.uid != libc::geteuid() {
                continue;
            }
            let base = libc::shmat(memory, std::ptr::null(), libc::SHM_RDONLY);
            if base as isize == -1 {
                continue;
            }
            let first = if about.shm_segsz < OWNER { [0; OWNER] } else { base.cast::<[u8; OWNER]>().read() };
            libc::shmdt(base);
            if Owner::decode(&first).is_some_and(|owner| (owner.device, owner.inode) == trace) {
                libc::shmctl(memory, libc::IPC_RMID, std::ptr::null_mut());
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: mapped by `to`, and nothing borrows from it.
        unsafe { libc::shmdt(self.base.cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_owners_survive_the_file() {
        for place in [
            Place { memory: 0, page: 1, token: 7 },
            Place { memory: PRIVATE, page: 0, token: u64::MAX },
            Place { memory: i32::MAX, page: u32::MAX, token: 1 },
        ] {
            let header = Header { id: place.id(), ..Header::new(Kind::Free, PAGE) };
            assert_eq!(Header::decode(&header.encode()).and_then(|found| Place::from_header(&found)), Some(place));
        }
        assert_eq!(Place::from_header(&Header::new(Kind::Free, PAGE)), None);
        let owner = Owner { token: 1, device: 2, inode: 3 };
        assert_eq!(Owner::decode(&owner.encode()), Some(owner));
        assert_eq!(Owner::decode(&[0; OWNER]), None);
    }
}
