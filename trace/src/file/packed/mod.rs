//! A packed trace: the bytes of a trace with compressed segments. A packed segment holds a piece of the
//! trace, and can be unpacked without the others.
//!
//! ```text
//! header, with version 2: kind of what it stands for, thread: how many whole segments of the trace
//!     that is, one behind the other (0: a piece between segments), id: low half where the piece begins
//!     in the trace, high half its bytes
//! method u64     0 the bytes, 1 a zstd frame of them, 2 a zstd frame of the columns of a chunk's records
//! meant  u64     bytes that the frame means
//! headers        64 bytes each, of the trace's segments
//! the bytes, or the frame
//! ```
//!
//! The bytes are those of the piece from its start, with zeros in place of the headers; the rest of the piece
//! is zeros.

mod columns;
mod hashes;
mod unpacked;

use crate::base::bytes::u64_at;
use crate::base::hash::checksum;
use crate::base::zstd;
use crate::file::segment::{HEADER, Header, Kind, PACKED_VERSION, round_up};
use std::io::{self, Read};
pub(crate) use unpacked::Unpacked;

/// How many bytes of the trace a byte of a packed segment may stand for: what is unpacked is bounded by the
/// file. One that shrinks to less is longer than it need be.
pub(crate) const MOST: u64 = 256;
/// A piece is no longer than this.
pub(crate) const LONGEST: u64 = 2 << 30;
/// Columns are put back as a whole: a chunk with more bytes of records is packed as it is.
const LONGEST_COLUMNS: u64 = 64 << 20;
/// Anything else is unpacked in steps of at most so many bytes.
const STEP: usize = 128 << 10;
const FIXED: usize = 16;

const STORED: u64 = 0;
const COMPRESSED: u64 = 1;
const COLUMNS: u64 = 2;

/// A piece of a trace that becomes one packed segment.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub kind: Kind,
    pub from: u64,
    /// Segments that it consists of; none: what lies between two.
    pub headers: Vec<Header>,
}

/// Where the segments of a piece begin, from its beginning, with their headers. Stops behind the piece.
fn places(headers: &[u8], mut next: u64, bytes: u64) -> impl Iterator<Item = (u64, Header, &[u8])> {
    headers.chunks_exact(HEADER).map_while(move |raw| {
        let header = Header::decode(raw)?;
        let at = next;
        next = next.checked_add(header.size)?;
        (at + HEADER as u64 <= bytes).then_some((at, header, raw))
    })
}

/// The packed segment for these bytes of a trace, and its header.
pub(crate) fn segment(piece: &Piece, bytes: &[u8]) -> Vec<u8> {
    let raw: Vec<u8> = places_of(piece).flat_map(|at| bytes[at..at + HEADER].to_vec()).collect();
    let mut body = bytes.to_vec();
    places_of(piece).for_each(|at| body[at..at + HEADER].fill(0));
    let used = body.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    body.truncate(used);
    let whole = |method: u64, meant: usize, packed: &[u8]| {
        let mut content = Vec::with_capacity(FIXED + raw.len() + packed.len());
        content.extend(method.to_le_bytes());
        content.extend((meant as u64).to_le_bytes());
        content.extend(&raw);
        content.extend(packed);
        content
    };
    let columns = || {
        let [only] = piece.headers[..] else { return None };
        let records = bytes.get(HEADER..HEADER + only.length as usize).filter(|_| only.kind == Kind::Chunk)?;
        let is_all = used <= HEADER + records.len();
        let fits = only.length <= LONGEST_COLUMNS;
        let columns = columns::encode(records, only.first_call()).filter(|_| is_all && fits)?;
        Some(whole(COLUMNS, columns.len(), &zstd::compress(&columns)?))
    };
    let compressed = || {
        let frame = zstd::compress(&body).filter(|frame| frame.len() < body.len() - body.len() / 32)?;
        Some(whole(COMPRESSED, body.len(), &frame))
    };
    // What was packed is unpacked at once: the trace may be all that is left of a run.
    let means_the_same = |content: &Vec<u8>| {
        let (count, length) = (piece.headers.len() as u32, bytes.len() as u64);
        // Where a header comes in the end, zeros come first.
        let (mut end, mut differs) = (0, false);
        let unpacked = unpack(content, count, length, |at, part| {
            let at = at as usize;
            let is_same = |with: &[u8]| with.get(at..at + part.len()) == Some(part);
            differs |= !is_same(&body) && !is_same(bytes);
            end = end.max(at + part.len());
            Ok(())
        });
        unpacked.is_ok() && !differs && bytes[end..].iter().all(|byte| *byte == 0)
    };
    let content = columns().or_else(compressed).filter(means_the_same);
    let content = content.unwrap_or_else(|| whole(STORED, body.len(), &body));
    let size = round_up((HEADER + content.len()) as u64).max(round_up((bytes.len() as u64).div_ceil(MOST)));
    let header = Header {
        version: PACKED_VERSION,
        thread: piece.headers.len() as u32,
        id: u128::from(piece.from) | (bytes.len() as u128) << 64,
        length: content.len() as u64,
        seal: checksum(&content),
        ..Header::new(piece.kind, size)
    };
    [&header.encode()[..], &content].concat()
}

fn places_of(piece: &Piece) -> impl Iterator<Item = usize> {
    piece.headers.iter().scan(0, |next, header| {
        let at = *next;
        *next += header.size as usize;
        Some(at)
    })
}

/// Gives `to` what a packed segment stands for, up to where it is zeros, from the beginning on, each part with
/// where it is; then the headers, which are zeros before. That is a piece of so many bytes. The kind of an error
/// that is none of `to` is InvalidData.
fn unpack(content: &[u8], count: u32, bytes: u64, mut to: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let split = content.split_at_checked(FIXED + count as usize * HEADER);
    let (begin, packed) = split.ok_or(io::ErrorKind::InvalidData)?;
    unpack_between_headers(begin, packed, bytes, &mut to)?;
    places(&begin[FIXED..], 0, bytes).try_for_each(|(at, _, raw)| to(at, raw))
}

/// The same without the headers, of which `begin` has the first, if there is one.
fn unpack_between_headers(
    begin: &[u8],
    packed: &[u8],
    bytes: u64,
    mut to: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (fixed, headers) = begin.split_at_checked(FIXED).ok_or(io::ErrorKind::InvalidData)?;
    let (method, meant) = (u64_at(fixed, 0), u64_at(fixed, 8));
    let mut parts = |from: u64, all: &[u8]| {
        let mut parts = all.chunks(STEP).zip(0..);
        parts.try_for_each(|(part, index)| to(from + index * STEP as u64, part))
    };
    match method {
        STORED if meant <= bytes => {
            parts(0, packed.get(..meant as usize).ok_or(io::ErrorKind::InvalidData)?)?;
        }
        COMPRESSED if meant <= bytes => decompress(packed, meant, parts)?,
        COLUMNS => {
            let records = records(headers, packed, meant, bytes).ok_or(io::ErrorKind::InvalidData)?;
            parts(HEADER as u64, &records)?;
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(())
}

/// The bytes that a frame means, if they are so many.
fn decompress(frame: &[u8], meant: u64, mut to: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let wrong = |_: io::Error| io::Error::from(io::ErrorKind::InvalidData);
    let mut decoder = zstd::decoder(frame, 0).map_err(wrong)?;
    let (mut step, mut at) = ([0; 16 << 10], 0);
    loop {
        match decoder.read(&mut step).map_err(wrong)? {
            0 if at == meant => return Ok(()),
            read if read > 0 && read as u64 <= meant - at => {
                to(at, &step[..read])?;
                at += read as u64;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The records of the one chunk whose columns this frame means.
fn records(headers: &[u8], frame: &[u8], meant: u64, bytes: u64) -> Option<Vec<u8>> {
    let (_, chunk, _) = places(headers, 0, bytes).next()?;
    let most = chunk.room().min(bytes - HEADER as u64).min(LONGEST_COLUMNS);
    let length = Some(chunk.length).filter(|length| *length <= most)? as usize;
    let meant = usize::try_from(meant).ok().filter(|meant| *meant <= columns::most(length))?;
    let mut columns = Vec::new();
    columns.try_reserve_exact(meant).ok()?;
    let whole = decompress(frame, meant as u64, |_, part| {
        columns.extend_from_slice(part);
        Ok(())
    });
    whole.ok()?;
    columns::back(&columns, chunk.first_call(), length)
}
