//! The end of a trace's segments, written when the trace is closed or its process exits. It lies near the
//! start of the file, in the page set aside for last words, if there were none. By it a reader distinguishes
//! a file that was truncated between two segments from one that was never closed.

use crate::base::bytes::u64_at;
use crate::file::mapping::Mapping;
use crate::file::segment::{HEADER, Header, Kind, PAGE};
use crate::file::storage::Storage;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Behind the header of the page, which is free: what knows of no mark passes over it.
const MARK: [u8; 8] = *b"CUTREND\n";

/// Writes it, if the page behind two preambles of this size is free.
pub fn mark(file: &File, preamble: u64, end: u64) -> io::Result<()> {
    let mut header = [0; HEADER];
    let page = 2 * preamble;
    // One that is shorter has no such page.
    if file.read_at(&mut header, page)? == HEADER && is_free(&header) {
        write(file, page, end)?;
    }
    Ok(())
}

/// Writes it into the page at this offset.
pub(crate) fn write(storage: &impl Storage, page: u64, end: u64) -> io::Result<()> {
    storage.write(&[MARK, end.to_le_bytes()].concat(), page + HEADER as u64)
}

/// Whether there is a page at this offset, without last words.
pub(crate) fn is_free_at(map: &Mapping, page: u64) -> bool {
    map.peek::<HEADER>(page).is_some_and(|header| is_free(&header))
}

fn is_free(header: &[u8]) -> bool {
    Header::decode(header).is_some_and(|header| header.kind == Kind::Free && header.size == PAGE)
}

/// Where the footer begins, or would.
pub(crate) fn footer_offset(map: &Mapping, segments: &[(u64, Header)]) -> Option<u64> {
    let (_, preamble) = segments.iter().find(|(_, header)| header.kind == Kind::Preamble)?;
    let page = preamble.size.checked_mul(2)?;
    let mark = map.peek::<16>(page.checked_add(HEADER as u64)?)?;
    (is_free_at(map, page) && mark.starts_with(&MARK)).then(|| u64_at(&mark, MARK.len()))
}
