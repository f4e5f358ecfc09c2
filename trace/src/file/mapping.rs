//! The bytes of a trace: the file, mapped where that is safe, or the unpacked contents of a packed file.

use crate::base::damage::Damage;
use crate::base::hash::checksum;
use crate::base::mapped::Mapped;
use crate::file::packed::Unpacked;
use crate::file::segment::Kind;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The bytes of a file: mapped; or read, if access to a hole of the file could raise SIGBUS; or unpacked on
/// access, and zeros until then.
pub(crate) enum Mapping {
    Mapped(memmap2::Mmap, File, #[expect(dead_code, reason = "it ends with the mapping")] Mapped),
    Read(Vec<u8>, File),
    Packed(Unpacked),
}

impl Mapping {
    pub(crate) fn open(mut file: File) -> io::Result<Mapping> {
        if let Some(unpacked) = Unpacked::open(&file)? {
            return Ok(Mapping::Packed(unpacked));
        }
        if is_tmpfs_with_holes(&file)? {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(file.metadata()?.len() as usize)?;
            file.read_to_end(&mut bytes)?;
            return Ok(Mapping::Read(bytes, file));
        }
        // SAFETY: the mapping is read as bytes only; a trace only ever grows while it is written.
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        let mapped = Mapped::register(&map);
        Ok(Mapping::Mapped(map, file, mapped))
    }

    /// A few bytes at an offset, read without touching the mapping: a look at a page maps its neighbours too,
    /// and a look at every chunk's header half of the file.
    pub(crate) fn peek<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(offset, &mut bytes)?;
        Some(bytes)
    }

    /// Fills `bytes` with what is at an offset; none if the file is not as long.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        // Of what has been read, too: a chunk that is open may be another one by now.
        match self {
            Mapping::Mapped(_, file, _) | Mapping::Read(_, file) => file.read_exact_at(bytes, offset).ok(),
            Mapping::Packed(unpacked) => unpacked.read(offset, bytes),
        }
    }

    /// The bytes from an offset on, up to `end`; of what was packed, no further than one piece of it goes.
    #[inline]
    pub(crate) fn bytes_from(&self, at: u64, end: u64) -> Option<&[u8]> {
        match self {
            Mapping::Packed(unpacked) => unpacked.bytes_from(at, end.min(self.len() as u64)),
            _ => self.get(at as usize..end as usize),
        }
    }

    /// All of them, if they are there.
    #[inline]
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        match self {
            Mapping::Mapped(map, ..) => Some(map),
            Mapping::Read(bytes, _) => Some(bytes),
            Mapping::Packed(_) => None,
        }
    }

    /// Has all segments of a kind at hand, for who looks at all of them.
    pub(crate) fn prepare(&self, kind: Kind) {
        if let Mapping::Packed(unpacked) = self {
            unpacked.fill_all(kind);
        }
    }

    /// The checksum of `len` bytes at an offset; none if they are not all there.
    pub(crate) fn checksum(&self, at: u64, len: u64) -> Option<u64> {
        match self {
            Mapping::Packed(unpacked) => unpacked.checksum(at, len),
            _ => Some(checksum(self.bytes_from(at, at.checked_add(len)?)?)),
        }
    }

    /// Reads all blobs that are packed. Whether the one in the segment at an offset is wrong; none of one that is not packed.
    pub(crate) fn check_packed_blobs(&self) -> impl Fn(u64) -> Option<bool> {
        let packed = if let Mapping::Packed(unpacked) = self { Some((unpacked, unpacked.wrong_blobs())) } else { None };
        move |at| {
            let (unpacked, wrong) = packed.as_ref()?;
            unpacked.is_among_blobs(at).then(|| wrong.binary_search(&at).is_ok())
        }
    }

    /// Why the bytes at an offset cannot be had.
    pub(crate) fn fault(&self, at: u64) -> Option<&str> {
        if let Mapping::Packed(unpacked) = self { unpacked.fault(at) } else { None }
    }

    /// What is wrong with the file that holds them.
    pub(crate) fn damage(&self) -> &[Damage] {
        if let Mapping::Packed(unpacked) = self { unpacked.damage() } else { &[] }
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Mapping::Mapped(map, ..) => map,
            Mapping::Read(bytes, _) => bytes,
            Mapping::Packed(unpacked) => unpacked,
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
