//! Segments: a trace file is a sequence of page-aligned segments, each with a 64-byte header.
//!
//! ```text
//!  0 magic    8   "CUTRACE\n"
//!  8 kind     u8  1 preamble, 2 chunk, 3 blob, 4 footer, 5 free
//!  9 version  u8  format version, FORMAT_VERSION; PACKED_VERSION in a packed file
//! 10 zero     u16
//! 12 thread   u32 chunk: index of the thread in this process
//! 16 size     u64 bytes of the whole segment, a multiple of 4096
//! 24 id       u128 blob: its hash; chunk: low half the number of this thread's first call in it, high half
//! its ordinal
//! 40 check    u64 XXH3-64 of bytes 0..40
//! 48 length   u64 bytes of content; in a chunk the committed ones, stored with release order after the bytes
//! 56 seal     u64 XXH3-64 of the content; 0 while a chunk is open
//! ```
//!
//! The preamble is stored twice at the start, so that one bad page does not lose the names of the functions.
//! The last 16 bytes of a footer segment are its own offset and the magic.

use crate::base::bytes::{u32_at, u64_at};
use crate::base::hash::checksum;

/// The first 8 bytes of each segment.
pub const MAGIC: [u8; 8] = *b"CUTRACE\n";
/// Version of segments that are not packed.
pub const FORMAT_VERSION: u8 = 1;
/// Of segments that stand for such of the other version (`packed`).
pub const PACKED_VERSION: u8 = 2;
/// Segments begin at multiples of this number of bytes.
pub const PAGE: u64 = 4096;
/// Bytes of a segment's header.
pub const HEADER: usize = 64;
/// Where in a segment the committed length stands.
pub const LENGTH_AT: usize = 48;
/// Offset of the seal in a segment.
pub const SEAL_AT: usize = 56;

/// Kind of a segment's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Facts about the process, before any call.
    Preamble = 1,
    /// Records of one thread.
    Chunk = 2,
    /// The bytes of a payload or of a module image.
    Blob = 3,
    /// Totals of a closed trace.
    Footer = 4,
    /// A chunk between two uses: nothing in it counts.
    Free = 5,
}

/// The header of a segment, decoded. FORMAT.md has the meaning of its fields for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Kind of the content.
    pub kind: Kind,
    /// [`FORMAT_VERSION`] or [`PACKED_VERSION`].
    pub version: u8,
    /// Index of a chunk's thread.
    pub thread: u32,
    /// Bytes of the segment, header included, a multiple of [`PAGE`].
    pub size: u64,
    /// A blob's hash, or the position of a chunk.
    pub id: u128,
    /// Bytes of content.
    pub length: u64,
    /// XXH3-64 of the content; 0 while a chunk is open.
    pub seal: u64,
}

impl Header {
    /// The header of a segment without content.
    pub fn new(kind: Kind, size: u64) -> Header {
        Header { kind, version: FORMAT_VERSION, thread: 0, size, id: 0, length: 0, seal: 0 }
    }

    /// The header as it is stored, with its checksum.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(&MAGIC);
        out[8] = self.kind as u8;
        out[9] = self.version;
        out[12..16].copy_from_slice(&self.thread.to_le_bytes());
        out[16..24].copy_from_slice(&self.size.to_le_bytes());
        out[24..40].copy_from_slice(&self.id.to_le_bytes());
        let check = checksum(&out[..40]);
        out[40..48].copy_from_slice(&check.to_le_bytes());
        out[48..56].copy_from_slice(&self.length.to_le_bytes());
        out[56..64].copy_from_slice(&self.seal.to_le_bytes());
        out
    }

    /// The header in `bytes`, if its own checksum holds and its kind is known.
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER)?;
        if bytes[..8] != MAGIC || u64_at(bytes, 40) != checksum(&bytes[..40]) {
            return None;
        }
        let kind = match bytes[8] {
            1 => Kind::Preamble,
            2 => Kind::Chunk,
            3 => Kind::Blob,
            4 => Kind::Footer,
            5 => Kind::Free,
            _ => return None,
        };
        let size = u64_at(bytes, 16);
        if size == 0 || !size.is_multiple_of(PAGE) {
            return None;
        }
        Some(Header {
            kind,
            version: bytes[9],
            thread: u32_at(bytes, 12),
            size,
            id: u128::from_le_bytes(bytes[24..40].try_into().expect("16 bytes")),
            length: u64_at(bytes, LENGTH_AT),
            seal: u64_at(bytes, SEAL_AT),
        })
    }

    /// How much content the segment has room for.
    pub fn room(&self) -> u64 {
        self.size - HEADER as u64
    }

    /// The number of the first call of a chunk's thread in this chunk.
    pub fn first_call(&self) -> u64 {
        self.id as u64
    }

    /// The position of this chunk among its thread's.
    pub fn ordinal(&self) -> u64 {
        (self.id >> 64) as u64
    }
}

/// A whole segment around `content`.
pub fn whole(kind: Kind, id: u128, content: &[u8]) -> Vec<u8> {
    let size = round_up(HEADER as u64 + content.len() as u64);
    let header = Header { id, length: content.len() as u64, seal: checksum(content), ..Header::new(kind, size) };
    let mut out = header.encode().to_vec();
    out.extend_from_slice(content);
    out.resize(size as usize, 0);
    out
}

/// The next multiple of [`PAGE`].
pub fn round_up(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE) * PAGE
}
