//! Blobs in the trace file: bytes that records name by their hash, each stored once.

use crate::os::generation;
use crate::os::lock::Lock;
use crate::trace_file::file::{TraceFile, write_at};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering::*};
use trace::base::hash::{Hash, sealed};
use trace::file::record::{REFERENCED, Referenced, with_body};
use trace::file::segment::{HEADER, Header, Kind};

/// The blobs in the file. Several threads search at once: each hash has its place in one of many maps.
pub(crate) struct Blobs {
    /// Not on the stack of a thread that has little of it.
    maps: Box<[Lock<HashMap<Hash, Stored>>]>,
    /// How often somebody has cut the file short: what was stored before is lost.
    cuts: AtomicU32,
}

const MAPS: usize = 64;

#[derive(Clone, Copy)]
struct Stored {
    /// Where the bytes begin in the file; none if it names another file that has them.
    place: Option<u64>,
    cuts: u32,
}

impl Default for Blobs {
    fn default() -> Blobs {
        Blobs { maps: (0..MAPS).map(|_| Lock::default()).collect(), cuts: AtomicU32::new(0) }
    }
}

impl Blobs {
    fn map(&self, hash: Hash) -> MutexGuard<'_, HashMap<Hash, Stored>> {
        self.maps[(hash.0 % MAPS as u128) as usize].lock()
    }

    /// What had been stored is gone.
    pub(crate) fn lost(&self) {
        self.cuts.fetch_add(1, AcqRel);
    }
}

impl TraceFile {
    /// Stores bytes under their hash, once. An error stops payload capture for good; the caller counts it.
    ///
    /// Whoever has the same bytes at the same time waits until they are in the file.
    pub(crate) fn blob(&self, bytes: &[u8]) -> Option<Hash> {
        self.blob_of(Hash::compute(bytes), bytes)
    }

    /// The same, of bytes that have this hash.
    pub(crate) fn blob_of(&self, hash: Hash, bytes: &[u8]) -> Option<Hash> {
        let cuts = self.stored.cuts.load(Acquire);
        let mut stored = self.stored.map(hash);
        if stored.get(&hash).is_some_and(|stored| stored.cuts == cuts) {
            return Some(hash);
        }
        if self.stopped.load(Relaxed) {
            return None;
        }
        let appended = self.room_for(bytes.len() as u64).and_then(|()| self.append_blob(hash, bytes));
        let appended = appended.map_err(|error| {
            if !self.stopped.swap(true, Relaxed) && !generation::is_off() {
                crate::os::log::tell(&format!(
                    "{}: {error}; payloads and module images are no longer recorded, calls still are",
                    self.path.display()
                ));
            }
        });
        let (place, was) = appended.ok()?;
        if was != hash {
            drop(stored);
            stored = self.stored.map(was);
        }
        stored.insert(was, Stored { place: Some(place), cuts });
        Some(was)
    }

    /// Whether the bytes of this hash are in the trace, or it names the file that they are in.
    pub(crate) fn has(&self, hash: Hash) -> bool {
        let cuts = self.stored.cuts.load(Acquire);
        self.stored.map(hash).get(&hash).is_some_and(|stored| stored.cuts == cuts)
    }

    /// Names, in the trace, pieces of another file.
    pub(crate) fn refer(&self, referenced: &Referenced) -> io::Result<()> {
        let cuts = self.stored.cuts.load(Acquire);
        self.append_of_no_thread(&with_body(REFERENCED, referenced))?;
        for hash in referenced.pieces.iter().map(|piece| Hash::from_bytes(piece.hash)) {
            let mut stored = self.stored.map(hash);
            if stored.get(&hash).is_none_or(|stored| stored.cuts != cuts) {
                stored.insert(hash, Stored { place: None, cuts });
            }
        }
        Ok(())
    }

    /// Appends a blob. The program may change the memory meanwhile (a graph's node reads it later): what has
    /// been written counts, and its hash is told.
    fn append_blob(&self, hash: Hash, bytes: &[u8]) -> io::Result<(u64, Hash)> {
        let (file, offset, size) = self.write(bytes)?;
        let (start, length) = (offset + HEADER as u64, bytes.len() as u64);
        let (mut written, mut seal) = sealed(bytes);
        if written != hash {
            let mut stored = Vec::new();
            stored.try_reserve_exact(bytes.len()).map_err(io::Error::other)?;
            stored.resize(bytes.len(), 0);
            file.read_exact_at(&mut stored, start)?;
            (written, seal) = sealed(&stored);
        }
        let header = Header { id: written.0, length, seal, ..Header::new(Kind::Blob, size) };
        write_at(&file, &header.encode(), offset)?;
        Ok((start, written))
    }

    /// `len` bytes of a blob that was stored here, from its byte `skip` on.
    pub(crate) fn read_blob(&self, hash: Hash, skip: u64, len: usize) -> Option<Vec<u8>> {
        let cuts = self.stored.cuts.load(Acquire);
        let place = self.stored.map(hash).get(&hash).filter(|stored| stored.cuts == cuts)?.place?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).ok()?;
        bytes.resize(len, 0);
        self.file().ok()?.read_exact_at(&mut bytes, place + skip).ok()?;
        Some(bytes)
    }

    /// Leaves 2 GiB of the file system free, or 5 % of one smaller than 40 GiB. A part of a large one would be more
    /// than others need: 5 % of 10 TB is 500 GB.
    fn room_for(&self, bytes: u64) -> io::Result<()> {
        let file = self.file()?;
        // SAFETY: fills the struct it is given; the descriptor is ours.
        let info = unsafe {
            let mut info: libc::statvfs = std::mem::zeroed();
            if libc::fstatvfs(file.as_raw_fd(), &mut info) != 0 {
                return Ok(());
            }
            info
        };
        let (whole, free) = (info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize);
        let floor = (whole / 20).min(2 << 30);
        if free < bytes + floor {
            let what = format!("{free} bytes are free: cannot store {bytes} more and leave {floor} to other programs");
            return Err(io::Error::other(what));
        }
        Ok(())
    }
}
