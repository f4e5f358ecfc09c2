//! Packing and unpacking of a trace: a file with the same bytes, compressed or not.

use crate::base::parallel;
use crate::file::mapping::Mapping;
use crate::file::packed::{LONGEST, Piece, segment};
use crate::file::segment::{HEADER, Header, Kind};
use crate::read::reader::Trace;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Segments are put together up to so many bytes: more than that, and one would be unpacked for the sake of
/// another.
const TOGETHER: u64 = 256 << 10;
/// What lies between segments is cut into pieces of this length.
const BETWEEN: u64 = 1 << 20;
/// Bytes that are at work at a time.
const AT_WORK: u64 = 64 << 20;

/// A piece, and where it ends.
type Bounded = (Piece, u64);

/// Writes the trace into an empty file, packed. It has to be closed: what is still written has no end. The
/// size of the file.
pub fn pack(trace: &Trace, file: &File) -> io::Result<u64> {
    if trace.is_packed() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the trace is already packed"));
    }
    let pieces = pieces(trace);
    if pieces.iter().any(|(piece, to)| to - piece.from > LONGEST) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a segment of more than 2 GiB cannot be packed"));
    }
    let (mut left, mut end) = (&pieces[..], 0);
    while !left.is_empty() {
        let mut sum = 0;
        let fits = |(piece, to): &&Bounded| {
            sum += to - piece.from;
            sum <= AT_WORK
        };
        let (batch, behind) = left.split_at(left.iter().take_while(fits).count().max(1));
        left = behind;
        let segments = parallel::map(parallel::processors(), batch, |(piece, to)| {
            segment(piece, &trace.map[piece.from as usize..*to as usize])
        });
        for packed in segments {
            file.write_all_at(&packed, end)?;
            // The padding is zeros without being written.
            end += Header::decode(&packed).map_or(0, |header| header.size);
            file.set_len(end)?;
        }
    }
    Ok(end)
}

/// The whole trace, in pieces: chunks, preambles and the footer by themselves, small blobs together, and
/// what lies between.
fn pieces(trace: &Trace) -> Vec<Bounded> {
    let len = trace.length();
    let mut segments: Vec<(u64, Header)> =
        trace.segments.iter().copied().filter(|(at, _)| at + HEADER as u64 <= len).collect();
    segments.sort_unstable_by_key(|(at, _)| *at);
    let mut pieces: Vec<Bounded> = Vec::new();
    let mut end = 0;
    let between = |pieces: &mut Vec<Bounded>, from: u64, to: u64| {
        let starts = (from..to).step_by(BETWEEN as usize);
        pieces
            .extend(starts.map(|from| (Piece { kind: Kind::Free, from, headers: Vec::new() }, to.min(from + BETWEEN))));
    };
    for (at, header) in segments {
        if at < end {
            continue;
        }
        between(&mut pieces, end, at);
        let to = at.saturating_add(header.size).min(len);
        let is_adjacent = at == end;
        end = to;
        match pieces.last_mut() {
            Some((piece, piece_to)) if is_adjacent && joins(piece, &header, to) => {
                piece.headers.push(header);
                *piece_to = to;
            }
            _ => pieces.push((Piece { kind: header.kind, from: at, headers: vec![header] }, to)),
        }
    }
    between(&mut pieces, end, len);
    pieces
}

fn joins(piece: &Piece, header: &Header, to: u64) -> bool {
    (piece.kind, header.kind) == (Kind::Blob, Kind::Blob) && to - piece.from <= TOGETHER
}

/// Writes what a packed trace stands for into an empty file. Of what cannot be unpacked the headers stay, so
/// that it is told of there as well. Nothing for a trace that is not packed.
pub fn unpack(trace: &Trace, file: &File) -> io::Result<u64> {
    if let Mapping::Packed(unpacked) = &*trace.map {
        unpacked.write(file)?;
    }
    Ok(trace.length())
}
