//! Blobs in the trace file: bytes that records name by their hash, each once.

use crate::file::{TraceFile, write_at};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use trace::hash::Hash;
use trace::segment::{HEADER, Header, Kind};

impl TraceFile {
    /// Appends a blob. The program may change the memory meanwhile (a graph's node reads it later): what has
    /// been written counts, and its hash is told.
    fn append_blob(&self, hash: Hash, bytes: &[u8]) -> io::Result<(u64, Hash)> {
        let seal = trace::hash::checksum(bytes);
        let (file, offset, size) = self.write(bytes)?;
        let (start, length) = (offset + HEADER as u64, bytes.len() as u64);
        let mut header = Header { id: hash.0, length, seal, ..Header::new(Kind::Blob, size) };
        if Hash::of(bytes) != hash {
            let mut stored = Vec::new();
            stored.try_reserve_exact(bytes.len()).map_err(io::Error::other)?;
            stored.resize(bytes.len(), 0);
            file.read_exact_at(&mut stored, start)?;
            (header.id, header.seal) = (Hash::of(&stored).0, trace::hash::checksum(&stored));
        }
        write_at(&file, &header.encode(), offset)?;
        Ok((start, Hash(header.id)))
    }

    /// Stores bytes under their hash, once. An error stops payload capture for good; the caller counts it.
    pub fn blob(&self, bytes: &[u8]) -> Option<Hash> {
        let hash = Hash::of(bytes);
        if self.stored.lock().contains_key(&hash) {
            return Some(hash);
        }
        if self.stopped.load(Relaxed) {
            return None;
        }
        let appended = self.room_for(bytes.len() as u64).and_then(|()| self.append_blob(hash, bytes));
        let appended = appended.map_err(|error| {
            if !self.stopped.swap(true, Relaxed) {
                crate::log::tell(&format!(
                    "{}: {error}; payloads and module images are no longer recorded, calls still are",
                    self.path.display()
                ));
            }
        });
        let (place, hash) = appended.ok()?;
        self.stored.lock().insert(hash, place);
        Some(hash)
    }

    /// `len` bytes of a blob that was stored here, from its byte `skip` on.
    pub fn read_blob(&self, hash: Hash, skip: u64, len: usize) -> Option<Vec<u8>> {
        let place = *self.stored.lock().get(&hash)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).ok()?;
        bytes.resize(len, 0);
        self.file().ok()?.read_exact_at(&mut bytes, place + skip).ok()?;
        Some(bytes)
    }

    /// Leaves max(5 %, 2 GiB) of the file system free, or 5 % where the whole is smaller than 8 GiB.
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
        let floor = if whole < 8 << 30 { whole / 20 } else { (whole / 20).max(2 << 30) };
        if free < bytes + floor {
            return Err(io::Error::other(format!("{free} bytes are free, {floor} of them are left to others")));
        }
        Ok(())
    }
}
