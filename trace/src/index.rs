//! Finding what a file holds: its segments, the records in its chunks, and which return belongs to which entry.

use crate::hash::{Hash, checksum};
use crate::preamble::{Footer, decode};
use crate::reader::{Damage, Located, Thread, Trace};
use crate::record::{self, Clock, Kernel, Observed};
use crate::segment::{HEADER, Header, Kind, MAGIC, PAGE, u32_at, u64_at};
use bincode::Decode;
use std::collections::HashMap;

/// More threads than any file has; a larger index in a chunk is damage that must not cost memory.
const THREADS: usize = 1 << 20;

/// What carries over from one chunk of a thread to the next.
#[derive(Default)]
struct Lane {
    /// Calls without a return so far, by their number on the thread: where they stand in the index.
    open: HashMap<u32, usize>,
    /// The latest entry or return. A thread's calls follow each other whatever their stamps say, or the order of calls
    /// could have circles in it.
    latest: u64,
}

impl Trace {
    pub(crate) fn locate(&mut self) {
        if let Some(footer) = self.find_footer() {
            for segment in &footer.segments {
                match self.map.get(segment.offset as usize..).and_then(Header::decode) {
                    Some(header) => self.segments.push((segment.offset, header)),
                    None => self.damage.push(Damage {
                        offset: segment.offset,
                        what: "a segment header that does not match its checksum".into(),
                    }),
                }
            }
            self.footer = Some(footer);
            return;
        }
        let mut offset = 0;
        let mut lost = None;
        while offset + HEADER as u64 <= self.map.len() as u64 {
            let here = &self.map[offset as usize..];
            match Header::decode(here) {
                Some(header) => {
                    lost = None;
                    self.segments.push((offset, header));
                    offset = offset.saturating_add(header.size);
                }
                None => {
                    let page = &here[..here.len().min(PAGE as usize)];
                    if lost.is_none() && page[..HEADER].iter().any(|b| *b != 0) {
                        lost = Some(offset);
                        let what = "expected the header of a segment, found none that matches its checksum".into();
                        self.damage.push(Damage { offset, what });
                    }
                    offset += PAGE;
                }
            }
        }
        if self.map.get(offset as usize..).is_some_and(|tail| tail.iter().any(|b| *b != 0)) {
            self.damage.push(Damage { offset, what: "the file ends inside the header of a segment".into() });
        }
    }

    fn find_footer(&mut self) -> Option<Footer> {
        let end = self.map.len();
        let tail = self.map.get(end.checked_sub(16)?..)?;
        if tail[8..] != MAGIC {
            return None;
        }
        let found = self.footer_at(u64_at(tail, 0));
        if found.is_none() {
            let what = "a footer that does not match its checksum; the segments were found without it".into();
            self.damage.push(Damage { offset: end as u64 - 16, what });
        }
        found
    }

    fn footer_at(&self, offset: u64) -> Option<Footer> {
        let offset = offset as usize;
        let header = self.map.get(offset..).and_then(Header::decode).filter(|h| h.kind == Kind::Footer)?;
        let content = self.map.get(offset + HEADER..)?.get(..header.length as usize)?;
        (checksum(content) == header.seal).then(|| decode(content)).flatten()
    }

    pub(crate) fn index(&mut self) {
        self.clocks = self.preamble.clocks.to_vec();
        let mut chunks: Vec<(u64, Header)> = Vec::new();
        for &(offset, header) in &self.segments {
            let start = offset + HEADER as u64;
            match header.kind {
                Kind::Chunk => chunks.push((offset, header)),
                Kind::Blob if start.saturating_add(header.length) <= self.map.len() as u64 => {
                    self.blobs.insert(Hash(header.id), (start, header.length));
                }
                _ => {}
            }
            // Every segment is set aside whole before anything is written into it.
            let is_cut = offset.saturating_add(header.size) > self.map.len() as u64;
            let name = match header.kind {
                Kind::Preamble => "preamble",
                Kind::Blob => "blob",
                Kind::Footer => "footer",
                Kind::Free => "free chunk",
                Kind::Chunk => continue,
            };
            if is_cut {
                self.damage.push(Damage { offset, what: format!("the file ends inside this {name}") });
            }
        }
        // Of two copies of a chunk the sealed one comes first.
        chunks.sort_by_key(|(_, h)| (h.thread, h.ordinal(), h.seal == 0));
        let mut lane = Lane::default();
        let mut previous: Option<Header> = None;
        for (offset, header) in chunks {
            if previous.is_some_and(|p| p.thread == header.thread && p.ordinal() == header.ordinal()) {
                // A full chunk on its way to the end of the file may stand there already.
                continue;
            }
            let follows = previous.is_some_and(|p| p.thread == header.thread);
            if !follows {
                lane = Lane::default();
            }
            let expected = if follows { previous.map_or(0, |p| p.ordinal() + 1) } else { 0 };
            // A footer lists what could be kept; what could not is among its losses.
            if header.ordinal() != expected && self.footer.is_none() {
                let what = format!("thread {}: chunk {expected} is missing before this one", header.thread);
                self.damage.push(Damage { offset, what });
            }
            previous = Some(header);
            self.index_chunk(offset, header, &mut lane);
        }
        self.calls.sort_by_key(|c| (c.begin, c.thread, c.sequence));
        self.clocks.sort_by_key(|c| c.tsc);
    }

    fn index_chunk(&mut self, offset: u64, header: Header, lane: &mut Lane) {
        let damaged = |what: String| Damage { offset, what };
        let start = offset as usize + HEADER;
        let available = (self.map.len() - start.min(self.map.len())).min(header.size as usize - HEADER);
        if header.length > header.size - HEADER as u64 {
            let what = format!("a chunk with {} committed bytes of {}", header.length, header.size - HEADER as u64);
            self.damage.push(damaged(what));
            return;
        }
        let cut_off = header.length as usize > available;
        let length = (header.length as usize).min(available);
        if cut_off {
            let what = format!("the file ends inside this chunk: {available} of {} bytes are there", header.length);
            self.damage.push(damaged(what));
        } else if header.seal != 0 && checksum(&self.map[start..start + length]) != header.seal {
            self.damage.push(damaged(
                "a chunk whose content does not match its checksum: all its records are left out".into(),
            ));
            return;
        }
        if !cut_off && offset.saturating_add(header.size) > self.map.len() as u64 {
            self.damage.push(damaged("the file ends inside this chunk, behind its committed records".into()));
        }
        let thread = header.thread as usize;
        if self.threads.len() <= thread && thread < THREADS {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        let mut backwards = false;
        let mut sequence = header.first_call() as u32;
        let mut at = start as u64;
        let end = at + length as u64;
        while at < end {
            let Some(found) = self.record_within(at, end) else {
                if !cut_off {
                    let what = format!("a record at offset {at} that does not fit: the rest of its chunk is left out");
                    self.damage.push(damaged(what));
                }
                return;
            };
            let (head, size) = (found.head, found.bytes.len() as u64);
            match head.kind {
                record::ENTRY => {
                    let words = self.preamble.functions.get(head.function as usize).map_or(0, |(_, words)| *words);
                    if size < (record::ENTRY_SIZE + 8 * words as usize) as u64 {
                        let what = format!(
                            "a call with fewer than its {words} argument words: the rest of its chunk is left out"
                        );
                        self.damage.push(Damage { offset: at, what });
                        return;
                    }
                    let stamp = u64_at(found.bytes, 8);
                    if stamp < lane.latest && !backwards {
                        backwards = true;
                        let what = format!(
                            "a record at offset {at} whose time goes back on its own thread: it counts as later"
                        );
                        self.damage.push(damaged(what));
                    }
                    let begin = stamp.max(lane.latest);
                    lane.latest = begin;
                    lane.open.insert(sequence, self.calls.len());
                    self.calls.push(Located { begin, thread: header.thread, sequence, entry: at, ret: 0 });
                    sequence = sequence.wrapping_add(1);
                    if let Some(thread) = self.threads.get_mut(thread) {
                        thread.calls += 1;
                    }
                }
                record::RETURN => {
                    let (stamp, call) = (u64_at(found.bytes, 8), u32_at(found.bytes, 16));
                    if let Some(index) = lane.open.remove(&call) {
                        self.calls[index].ret = at;
                        lane.latest = lane.latest.max(stamp);
                    }
                }
                _ => self.other(header.thread, at, end),
            }
            at += size;
        }
    }

    fn other(&mut self, thread: u32, at: u64, end: u64) {
        let Some(found) = self.record_within(at, end) else { return };
        let (kind, flags) = (found.head.kind, found.head.flags);
        let body = &found.bytes[record::HEAD..];
        match kind {
            record::THREAD => {
                if let (Some(t), Some(slot)) = (body_of::<record::Thread>(body), self.threads.get_mut(thread as usize))
                {
                    (slot.os_id, slot.name) = (t.os_id, t.name);
                }
            }
            record::KERNEL => self.kernels.extend(body_of::<Kernel>(body).map(|k| (k.id, k))),
            record::DEVICE => self.devices.extend(body_of::<record::Device>(body)),
            record::ADOPTED => self.adopted.extend(body_of::<record::Adopted>(body)),
            record::CLOCK => self.clocks.extend(body_of::<Clock>(body)),
            record::OBSERVED => {
                if let Some(observed) = body_of::<Observed>(body) {
                    self.observed.entry((observed.thread, observed.call)).or_default().push(observed);
                }
            }
            record::LOSS => {
                if let Some(loss) = body_of::<record::Loss>(body) {
                    match self.losses.iter_mut().find(|(what, _)| *what == loss.what) {
                        Some((_, count)) => *count = (*count).max(loss.count),
                        None => self.losses.push((loss.what, loss.count)),
                    }
                }
            }
            _ if flags & record::OPTIONAL != 0 => {}
            _ => self.damage.push(Damage { offset: at, what: format!("a record of unknown kind {kind}") }),
        }
    }
}

fn body_of<T: Decode<()>>(body: &[u8]) -> Option<T> {
    decode(body)
}
