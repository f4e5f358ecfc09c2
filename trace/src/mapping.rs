//! The bytes of a file, mapped where that is safe.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Mapped; or read, where looking at a hole of the file could be answered with SIGBUS.
pub enum Mapping {
    Mapped(memmap2::Mmap, File),
    Read(Vec<u8>, File),
}

impl Mapping {
    pub fn of(mut file: File) -> io::Result<Mapping> {
        if is_tmpfs_with_holes(&file)? {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Mapping::Read(bytes, file));
        }
        // SAFETY: the mapping is read as bytes only; a trace only ever grows while it is written.
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Mapping::Mapped(map, file))
    }

    /// A few bytes at an offset, read without touching the mapping: a look at a page maps its neighbours too,
    /// and a look at every chunk's header half of the file.
    pub fn peek<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(offset, &mut bytes)?;
        Some(bytes)
    }

    /// Fills `bytes` with what is at an offset; none if the file is not as long.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        // Of what has been read, too: a chunk that is open may be another one by now.
        let (Mapping::Mapped(_, file) | Mapping::Read(_, file)) = self;
        file.read_exact_at(bytes, offset).ok()
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Mapping::Mapped(map, _) => map,
            Mapping::Read(bytes, _) => bytes,
        }
    }
}

/// tmpfs makes a page for a hole when a mapping is read there, and has none when it is full: a recording that
/// ended for lack of space leaves such a file.
fn is_tmpfs_with_holes(file: &File) -> io::Result<bool> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let fd = file.as_raw_fd();
    // SAFETY: plain system calls on our own descriptor; the struct is filled by the first.
    let (kind, hole) = unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(fd, &mut about) != 0 {
            return Err(io::Error::last_os_error());
        }
        let hole = libc::lseek(fd, 0, libc::SEEK_HOLE);
        libc::lseek(fd, 0, libc::SEEK_SET);
        (about.f_type as i64, hole)
    };
    Ok(kind == TMPFS_MAGIC && hole >= 0 && (hole as u64) < file.metadata()?.len())
}
