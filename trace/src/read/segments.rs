//! Location of a file's segments: by the footer's list, or one after another if there is none.

use crate::base::bytes::u64_at;
use crate::base::damage::Damage;
use crate::base::hash::checksum;
use crate::file::end_mark;
use crate::file::preamble::{Footer, decode};
use crate::file::segment::{HEADER, Header, Kind, MAGIC, PAGE};
use crate::file::shared_memory::Place;
use crate::file::writer;
use crate::read::reader::Trace;
use foldhash::HashSet;

impl Trace {
    pub(crate) fn locate(&mut self) {
        match self.find_footer() {
            Some((at, footer)) => {
                self.locate_listed(at, &footer);
                self.footer = Some(footer);
            }
            None => {
                self.locate_all();
                self.look_at_end();
            }
        }
    }

    /// The segments that the footer lists, and the footer's own.
    fn locate_listed(&mut self, footer_at: u64, footer: &Footer) {
        let mut offsets: Vec<u64> = footer.segments.iter().map(|s| s.offset).chain([footer_at]).collect();
        let blobs = footer.segments.iter().filter(|s| s.kind == Kind::Blob as u8).map(|s| s.offset);
        let blobs: HashSet<u64> = blobs.collect();
        offsets.sort_unstable();
        offsets.dedup();
        let mut end = 0;
        for offset in offsets {
            let header = self.map.peek::<HEADER>(offset).and_then(|bytes| Header::decode(&bytes));
            let what = match header.and_then(|h| Some((h, end_of(offset, &h)?))) {
                None => "a segment header that does not match its checksum",
                Some(_) if !offset.is_multiple_of(PAGE) => "the footer lists a segment that is not page-aligned",
                Some(_) if offset < end => "the footer lists a segment within another one",
                Some((header, _)) if header.kind != Kind::Blob && blobs.contains(&offset) => {
                    "expected a blob, which the footer lists, found none"
                }
                Some((header, its_end)) => {
                    end = its_end;
                    self.segments.push((offset, header));
                    continue;
                }
            };
            self.damage.push(Damage::new(offset, what));
        }
    }

    fn locate_all(&mut self) {
        let mut offset = 0;
        let mut lost = false;
        while offset + HEADER as u64 <= self.map.len() as u64 {
            let here = &self.map[offset as usize..];
            let header = self.map.peek::<HEADER>(offset).and_then(|bytes| Header::decode(&bytes));
            if let Some((header, end)) = header.and_then(|h| Some((h, end_of(offset, &h)?))) {
                lost = false;
                self.segments.push((offset, header));
                offset = end;
                continue;
            }
            if !lost && here[..here.len().min(PAGE as usize)].iter().any(|b| *b != 0) {
                lost = true;
                let what = "expected the header of a segment, found none that matches its checksum";
                self.damage.push(Damage::new(offset, what));
            }
            offset += PAGE;
        }
        let is_footer = end_mark::footer_offset(&self.map, &self.segments).is_some_and(|end| end <= offset);
        if !is_footer && self.map.get(offset as usize..).is_some_and(|tail| tail.iter().any(|b| *b != 0)) {
            self.damage.push(Damage::new(offset, "the file ends inside the header of a segment"));
        }
    }

    /// Without a footer: whether more than that is missing. A recorder sets the place of its first chunk
    /// aside before a call is recorded, and of a trace that was not closed one at least is open.
    fn look_at_end(&mut self) {
        let len = self.map.len() as u64;
        let footer = self.segments.iter().find(|(_, header)| header.kind == Kind::Footer).map(|(offset, _)| *offset);
        let end = end_mark::footer_offset(&self.map, &self.segments).or(footer);
        if let Some(end) = end {
            self.damage.iter_mut().filter(|damage| damage.offset >= end).for_each(|damage| damage.loses = false);
        }
        let is_told = |(offset, header): &(u64, Header)| {
            matches!(header.kind, Kind::Blob | Kind::Free | Kind::Chunk) && offset.saturating_add(header.size) > len
        };
        let is_open = |h: &Header| h.kind == Kind::Chunk && h.seal == 0 || Place::from_header(h).is_some();
        let what = match end {
            _ if self.segments.iter().any(is_told) => return,
            Some(end) if len < end => format!("the file ends here: it was cut off, and ended at {end} before"),
            Some(_) => return,
            None if self.segments.iter().any(|(_, header)| is_open(header)) => return,
            None if writer::find(&self.path, self.preamble.pid).is_some() => return,
            None => "the file ends here: it was cut off, and has neither a footer nor an open chunk".into(),
        };
        self.damage.push(Damage::new(len, what));
    }

    fn find_footer(&mut self) -> Option<(u64, Footer)> {
        let end = self.map.len();
        let tail = self.map.get(end.checked_sub(16)?..)?;
        if tail[8..] != MAGIC {
            return None;
        }
        let at = u64_at(tail, 0);
        // The magic is what every segment begins with, and may be the last that a cut has left.
        if at == 0 || !at.is_multiple_of(PAGE) {
            return None;
        }
        let found = self.footer_at(at);
        if found.is_none() {
            let what = "a footer that does not match its checksum; the segments were found without it";
            self.damage.push(Damage::mendable(end as u64 - 16, what));
        }
        Some((at, found?))
    }

    fn footer_at(&self, offset: u64) -> Option<Footer> {
        let header = self.map.get(offset as usize..).and_then(Header::decode).filter(|h| h.kind == Kind::Footer)?;
        let content = self.content(offset, &header)?;
        (checksum(content) == header.seal).then(|| decode(content)).flatten()
    }
}

/// Where a segment ends; none beyond what a file can hold.
fn end_of(offset: u64, header: &Header) -> Option<u64> {
    offset.checked_add(header.size).filter(|end| *end <= i64::MAX as u64)
}
