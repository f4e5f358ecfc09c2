//! Reading a trace: whole, cut off, or damaged.
//!
//! The footer only saves the search: without it the segments are found by their headers. A chunk that is torn or corrupt
//! costs that chunk, and [`Trace::damage`] says so.

use crate::api::{self, Function};
use crate::call::{Call, Content, Image};
use crate::hash::{Hash, checksum};
use crate::preamble::{Footer, Preamble, decode};
use crate::record::{self, CONFIG, Clock, Head, Kernel, Observed};
use crate::segment::{FORMAT_VERSION, HEADER, Header, Kind, MAGIC, PAGE, u32_at, u64_at};
use bincode::Decode;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: not a regular file; expected a trace")]
    NotAFile { path: PathBuf },
    #[error("{path}: the file is empty; a trace begins with the 8 bytes \"CUTRACE\\n\"")]
    Empty { path: PathBuf },
    #[error("{path}: not a cutrace trace: found {found} at offset 0, expected \"CUTRACE\\n\"")]
    Foreign { path: PathBuf, found: String },
    #[error(
        "{path}: format version {found} at offset 9; this cutrace reads up to {FORMAT_VERSION}: use a newer cutrace"
    )]
    Newer { path: PathBuf, found: u8 },
    #[error("{path}: no readable preamble at offset 0 nor in its copy; expected one that matches its checksum")]
    NoPreamble { path: PathBuf },
}

/// Something in the file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub offset: u64,
    /// What was found and what was expected.
    pub what: String,
}

/// One recorded thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    pub os_id: u32,
    pub name: String,
    pub calls: u64,
}

#[derive(Debug, Clone, Copy)]
struct Located {
    begin: u64,
    thread: u32,
    sequence: u32,
    entry: u64,
    /// Offset of the return record; 0 if there is none.
    ret: u64,
}

/// More threads than any file has; a larger index in a chunk is damage that must not cost memory.
const THREADS: usize = 1 << 20;

/// An opened trace.
pub struct Trace {
    pub path: PathBuf,
    map: memmap2::Mmap,
    pub preamble: Preamble,
    pub footer: Option<Footer>,
    pub threads: Vec<Thread>,
    /// Launched functions by id.
    pub kernels: HashMap<u32, Kernel>,
    pub devices: Vec<record::Device>,
    pub adopted: Vec<record::Adopted>,
    pub losses: Vec<(String, u64)>,
    pub damage: Vec<Damage>,
    pub clocks: Vec<Clock>,
    /// Every segment found, in file order.
    pub segments: Vec<(u64, Header)>,
    functions: Vec<Option<&'static Function>>,
    blobs: HashMap<Hash, (u64, u64)>,
    observed: HashMap<(u32, u32), Vec<Observed>>,
    calls: Vec<Located>,
}

impl Trace {
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, Error> {
        let path = path.as_ref().to_path_buf();
        let io = |source| Error::Io { path: path.clone(), source };
        let found = std::fs::metadata(&path).map_err(io)?;
        if !found.is_file() {
            return Err(Error::NotAFile { path });
        }
        let file = std::fs::File::open(&path).map_err(io)?;
        if found.len() == 0 {
            return Err(Error::Empty { path });
        }
        // SAFETY: the mapping is read as bytes only; a trace only ever grows while it is written.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        let (preamble, found) = find_preamble(&map, &path)?;
        let functions = preamble.functions.iter().map(|(name, _)| api::by_name(name)).collect();
        let mut trace = Trace {
            path,
            map,
            preamble,
            footer: None,
            threads: Vec::new(),
            kernels: HashMap::new(),
            devices: Vec::new(),
            adopted: Vec::new(),
            losses: Vec::new(),
            damage: found,
            clocks: Vec::new(),
            segments: Vec::new(),
            functions,
            blobs: HashMap::new(),
            observed: HashMap::new(),
            calls: Vec::new(),
        };
        trace.locate();
        trace.index();
        Ok(trace)
    }

    /// Size of the file in bytes.
    pub fn bytes_on_disk(&self) -> u64 {
        self.map.len() as u64
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All calls by entry time.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = Call<'_>> {
        (0..self.calls.len()).map(|n| self.call(n as u64).expect("within the index"))
    }

    pub fn call(&self, number: u64) -> Option<Call<'_>> {
        let at = self.calls.get(number as usize)?;
        let entry = self.record(at.entry)?;
        let id = entry.head.function;
        let words = self.preamble.functions.get(id as usize).map_or(0, |(_, words)| *words as usize * 8);
        let body = &entry.bytes[record::ENTRY_SIZE..];
        let (words, at_entry) = body.split_at_checked(words)?;
        let ret = if at.ret == 0 { None } else { self.record(at.ret) };
        Some(Call {
            trace: self,
            number,
            thread: at.thread,
            sequence: at.sequence,
            begin: at.begin,
            end: ret.as_ref().map(|r| u64_at(r.bytes, 8)),
            result: ret.as_ref().map(|r| u32_at(r.bytes, 20)),
            inner: entry.head.flags & record::INNER != 0,
            id,
            words,
            at_entry,
            at_return: ret.map_or(&[], |r| &r.bytes[record::RETURN_SIZE..]),
        })
    }

    pub fn function_name(&self, id: u16) -> &str {
        self.preamble.functions.get(id as usize).map_or("?", |(name, _)| name)
    }

    pub fn function(&self, id: u16) -> Option<&'static Function> {
        let function = (*self.functions.get(id as usize)?)?;
        // A line that changed its shape since the file was written cannot be walked.
        (function.words() == self.preamble.functions[id as usize].1 as usize).then_some(function)
    }

    /// The content of a blob, if the file has it whole.
    pub fn blob(&self, hash: Hash) -> Option<&[u8]> {
        let (offset, len) = *self.blobs.get(&hash)?;
        self.map.get(offset as usize..)?.get(..len as usize)
    }

    pub fn blobs(&self) -> impl Iterator<Item = (Hash, u64)> {
        self.blobs.iter().map(|(hash, (_, len))| (*hash, *len))
    }

    /// The bytes of an image, if the file has them.
    pub fn bytes<'a>(&'a self, image: &Image<'a>) -> Option<&'a [u8]> {
        match image.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::Blob(hash) => self.blob(hash),
            _ => None,
        }
    }

    pub(crate) fn observed(&self, thread: u32, sequence: u32) -> &[Observed] {
        self.observed.get(&(thread, sequence)).map_or(&[], Vec::as_slice)
    }

    /// Nanoseconds since the first clock pair of the trace.
    pub fn nanoseconds(&self, ticks: u64) -> i64 {
        let (first, last) = (self.clocks[0], self.clocks[self.clocks.len() - 1]);
        let (dt, dn) = (last.tsc.wrapping_sub(first.tsc) as i128, last.ns.wrapping_sub(first.ns) as i128);
        let since = ticks as i128 - first.tsc as i128;
        (if dt == 0 { since } else { since.saturating_mul(dn) / dt }) as i64
    }

    /// The committed content of a segment, if the file has all of it.
    pub fn content(&self, offset: u64, header: &Header) -> Option<&[u8]> {
        let start = offset as usize + HEADER;
        self.map.get(start..start.checked_add(header.length as usize)?)
    }

    /// Bytes of the whole records at the start of a chunk that the file may have only in part.
    pub fn whole_records(&self, offset: u64, header: &Header) -> u64 {
        let start = offset + HEADER as u64;
        let end = start.saturating_add(header.length).min(self.map.len() as u64);
        let mut at = start;
        while let Some(found) = self.record_within(at, end).filter(|_| at < end) {
            at += found.bytes.len() as u64;
        }
        at - start
    }

    /// Reads every blob and leaves out those that are not what their name says. [`Trace::open`] does not: it takes as
    /// long as reading the file.
    pub fn check_blobs(&mut self) {
        let wrong: Vec<(Hash, u64)> = self
            .blobs
            .iter()
            .filter(|(hash, _)| self.blob(**hash).map(Hash::of) != Some(**hash))
            .map(|(hash, (start, _))| (*hash, *start))
            .collect();
        for (hash, start) in wrong {
            self.blobs.remove(&hash);
            let what = format!("a blob that does not match its hash {hash}: it is left out");
            self.damage.push(Damage { offset: start - HEADER as u64, what });
        }
    }

    fn locate(&mut self) {
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

    fn index(&mut self) {
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
        let mut open = HashMap::new();
        let mut previous: Option<Header> = None;
        for (offset, header) in chunks {
            if previous.is_some_and(|p| p.thread == header.thread && p.ordinal() == header.ordinal()) {
                // A full chunk on its way to the end of the file may stand there already.
                continue;
            }
            let follows = previous.is_some_and(|p| p.thread == header.thread);
            if !follows {
                open.clear();
            }
            let expected = if follows { previous.map_or(0, |p| p.ordinal() + 1) } else { 0 };
            // A footer lists what could be kept; what could not is among its losses.
            if header.ordinal() != expected && self.footer.is_none() {
                let what = format!("thread {}: chunk {expected} is missing before this one", header.thread);
                self.damage.push(Damage { offset, what });
            }
            previous = Some(header);
            self.index_chunk(offset, header, &mut open);
        }
        self.calls.sort_by_key(|c| (c.begin, c.thread, c.sequence));
        self.clocks.sort_by_key(|c| c.tsc);
    }

    fn index_chunk(&mut self, offset: u64, header: Header, open: &mut HashMap<u32, usize>) {
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
                    let begin = u64_at(found.bytes, 8);
                    open.insert(sequence, self.calls.len());
                    self.calls.push(Located { begin, thread: header.thread, sequence, entry: at, ret: 0 });
                    sequence = sequence.wrapping_add(1);
                    if let Some(thread) = self.threads.get_mut(thread) {
                        thread.calls += 1;
                    }
                }
                record::RETURN => {
                    let call = u32_at(found.bytes, 16);
                    if let Some(index) = open.remove(&call) {
                        self.calls[index].ret = at;
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

    fn record(&self, at: u64) -> Option<Record<'_>> {
        self.record_within(at, self.map.len() as u64)
    }

    fn record_within(&self, at: u64, end: u64) -> Option<Record<'_>> {
        let bytes = self.map.get(at as usize..end as usize)?;
        let head: Head = bincode::decode_from_slice(bytes.get(..record::HEAD)?, CONFIG).ok()?.0;
        let size = head.size as usize;
        let least = match head.kind {
            record::ENTRY => record::ENTRY_SIZE,
            record::RETURN => record::RETURN_SIZE,
            _ => record::HEAD,
        };
        if size < least || !size.is_multiple_of(8) {
            return None;
        }
        Some(Record { head, bytes: bytes.get(..size)? })
    }
}

struct Record<'a> {
    head: Head,
    bytes: &'a [u8],
}

fn body_of<T: Decode<()>>(body: &[u8]) -> Option<T> {
    decode(body)
}

/// The preamble, from the start of the file or from its copy; with what was wrong with the first.
fn find_preamble(map: &[u8], path: &Path) -> Result<(Preamble, Vec<Damage>), Error> {
    const SEARCH: usize = 16 << 20;
    let mut damage = Vec::new();
    let mut foreign = map.len() < 8 || map[..8] != MAGIC;
    for offset in (0..map.len().min(SEARCH)).step_by(PAGE as usize) {
        let Some(header) = Header::decode(&map[offset..]) else { continue };
        foreign = false;
        if header.version > FORMAT_VERSION {
            return Err(Error::Newer { path: path.to_path_buf(), found: header.version });
        }
        if header.kind != Kind::Preamble {
            continue;
        }
        let content = map.get(offset + HEADER..).and_then(|rest| rest.get(..header.length as usize));
        let whole = content.filter(|content| checksum(content) == header.seal).and_then(decode);
        if let Some(preamble) = whole {
            if offset != 0 && damage.is_empty() {
                damage.push(Damage { offset: 0, what: "the first preamble is damaged; its copy was used".into() });
            }
            return Ok((preamble, damage));
        }
        damage.push(Damage { offset: offset as u64, what: "a preamble that does not match its checksum".into() });
    }
    if foreign {
        let found = map[..map.len().min(8)].escape_ascii().to_string();
        return Err(Error::Foreign { path: path.to_path_buf(), found: format!("\"{found}\"") });
    }
    Err(Error::NoPreamble { path: path.to_path_buf() })
}
