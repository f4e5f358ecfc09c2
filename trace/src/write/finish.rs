//! Closing of a trace after its process has ended: every chunk is sealed, the footer written.
//!
//! The recorder does not do this, because it may be killed at any moment and a reader needs neither. (At a
//! normal exit it writes its open chunks to the file, unsealed.) `cutrace record` and `cutrace repair` do it
//! when the process has ended.

use crate::base::damage::Damage;
use crate::base::hash::{Hash, checksum};
use crate::file::end_mark;
use crate::file::preamble::{Footer, Located, encode};
use crate::file::record::{self, Loss, timed, with_body};
use crate::file::scale::FAR;
use crate::file::segment::{HEADER, Header, Kind, MAGIC, PAGE, round_up, whole};
use crate::file::shared_memory::Place;
use crate::file::storage::{self, Storage};
use crate::file::writer;
use crate::read::reader::Trace;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A trace that cannot be closed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read or write it.
    #[error("{path}: {source}")]
    Io {
        /// Path of the trace.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The path leads to another file than the one that was opened.
    #[error("{path}: another file has been put in its place; that file is not changed")]
    Replaced {
        /// Path of the trace.
        path: PathBuf,
    },
    /// Its process still writes.
    #[error("{path}: process {pid} is still writing this trace; try again when the process has ended")]
    InUse {
        /// Path of the trace.
        path: PathBuf,
        /// The process id.
        pid: u32,
    },
    /// It is compressed.
    #[error("{path}: cannot write to a packed trace; unpack it first")]
    Packed {
        /// Path of the trace.
        path: PathBuf,
    },
}

/// The contents of a closed trace, and the changes made to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// That the program made.
    pub calls: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Segments that the footer lists.
    pub segments: usize,
    /// Chunks that had no checksum yet.
    pub sealed: usize,
    /// Whether the footer had to be written.
    pub written: bool,
    /// Damage is among them once the footer is written.
    pub losses: Vec<(String, u64)>,
    /// The verdict in the footer.
    pub verdict: String,
    /// The reasons for the verdict, as phrases.
    pub reasons: Vec<String>,
}

/// A footer's judgement of the whole trace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// `replayable`, `partly` or `no`, and why; empty if nobody has judged the trace.
    pub verdict: String,
    /// The reasons for the verdict, as phrases.
    pub reasons: Vec<String>,
    /// What its writer wants to find again without reading the calls ([`Trace::summary`]); may be empty.
    pub summary: Vec<u8>,
}

impl From<(String, Vec<String>)> for Judgement {
    fn from((verdict, reasons): (String, Vec<String>)) -> Judgement {
        Judgement { verdict, reasons, summary: Vec::new() }
    }
}

/// Whether there is nothing to finish: a footer, and no damage.
pub fn is_whole(trace: &Trace) -> bool {
    trace.footer.is_some() && trace.damage.is_empty()
}

/// Seals what is open and writes the footer, with the verdict that `judge` gives on the trace as it will be
/// read. A finished trace without damage is left as it is. The trace must be opened anew to see the footer.
///
/// Nothing that can be read is overwritten, and between any two writes the file can be read as before
/// (`storage`).
pub fn finish<J: Into<Judgement>>(trace: &Trace, judge: impl FnOnce(&Trace) -> J) -> Result<Finished, Error> {
    not_in_use(trace)?;
    match is_whole(trace) {
        true => Ok(as_it_is(trace)),
        false => finish_on(trace, &file_of(trace)?, &[], judge),
    }
}

/// The same, with records that belong to no thread in a chunk of their own. A trace that has a footer is left
/// as it is, damaged or not: what its footer says is lost could not be found again while another is written.
pub fn finish_with<J: Into<Judgement>>(
    trace: &Trace,
    records: &[u8],
    judge: impl FnOnce(&Trace) -> J,
) -> Result<Finished, Error> {
    not_in_use(trace)?;
    match trace.footer {
        Some(_) => Ok(as_it_is(trace)),
        None => finish_on(trace, &file_of(trace)?, records, judge),
    }
}

/// The file of a trace, for writing, if it is still the one that was read.
fn file_of(trace: &Trace) -> Result<File, Error> {
    let path = || trace.path.clone();
    if trace.is_packed() {
        return Err(Error::Packed { path: path() });
    }
    let io = |source| Error::Io { path: path(), source };
    let file = File::options().read(true).write(true).open(&trace.path).map_err(io)?;
    let now = file.metadata().map_err(io)?;
    match (now.dev(), now.ino()) == trace.file {
        true => Ok(file),
        false => Err(Error::Replaced { path: path() }),
    }
}

fn as_it_is(trace: &Trace) -> Finished {
    let Footer { segments, verdict, reasons, .. } = trace.footer.clone().unwrap_or_default();
    Finished {
        calls: trace.calls_made(),
        bytes: trace.bytes_on_disk(),
        segments: segments.len(),
        sealed: 0,
        written: false,
        losses: losses(trace, |damage| damage.loses),
        verdict,
        reasons,
    }
}

/// Does it, on the file that the trace was read from. The order of these steps is what keeps the file
/// readable wherever they end.
pub fn finish_on<J: Into<Judgement>>(
    trace: &Trace,
    storage: &impl Storage,
    records: &[u8],
    judge: impl FnOnce(&Trace) -> J,
) -> Result<Finished, Error> {
    let path = trace.path.as_path();
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let preambles = restore_preambles(storage, trace).map_err(io)?;
    let sealed_chunks = sealed_chunks(trace);
    let is_spent = |header: &Header| is_spent(&sealed_chunks, header);
    let kept = usable_segments(trace, &is_spent);
    let losses =
        losses(trace, |damage| damage.loses && (damage.offset >= trace.length() || !preambles.hold(damage.offset)));
    // The file alone has everything from here on.
    let homes = copy_home(storage, trace).map_err(io)?;
    let page = preambles.size * 2;
    let has_page = !kept.iter().any(|(offset, header)| *offset == page && header.kind == Kind::Chunk)
        && end_mark::is_free_at(&trace.map, page);
    // Without a mark, a free place says that the file was not cut off.
    let holds = |offset: u64, header: &Header| {
        let is_place = Place::from_header(header).is_some();
        !is_spent(header) || is_place && !(has_page && trace.copies.is_known(offset))
    };
    let behind = end_of(trace, holds).max(preambles.end());
    let mut end = behind;
    if has_page {
        // The page itself may be the last segment: nothing is written over it.
        end = end.max(page + PAGE);
        // Before the last open chunk is gone: whatever comes now, it is known what should be there.
        end_mark::write(storage, page, end).map_err(io)?;
    }
    trace.release_memory();
    let mut footer = Footer {
        segments: located(&kept, &preambles),
        calls: trace.len() as u64,
        blob_bytes: trace.blobs().map(|(_, len)| len).sum(),
        losses: losses.clone(),
        ..Footer::default()
    };
    // What is found as damage is not found once headers are mended: the records say it until the footer does.
    let lost = losses.iter().filter(|(what, _)| is_damage(what));
    let lost = lost.map(|(what, count)| with_body(record::LOSS, &Loss { what: what.clone(), count: *count }));
    let records = [records, &lost.collect::<Vec<_>>().concat()].concat();
    let mut open = None;
    if !records.is_empty() || !has_page {
        let header = of_no_thread(trace, &records);
        // Without a mark an open chunk has to be there, until there is a footer.
        let seal = if has_page { header.seal } else { 0 };
        storage::append(storage, Header { seal, ..header }, &records, end).map_err(io)?;
        footer.segments.push(Located { kind: header.kind as u8, offset: end });
        open = (!has_page).then_some((header, end));
        end += header.size;
        if has_page {
            end_mark::write(storage, page, end).map_err(io)?;
        }
    }
    let sealed = seal(storage, trace, &kept, &homes).map_err(io)?;
    let judgement: Judgement = if trace.damage.is_empty() {
        judge(trace).into()
    } else {
        write(storage, end, &footer, &[]).map_err(io)?;
        judge(&Trace::open(path).map_err(|error| io(io::Error::other(error)))?).into()
    };
    (footer.verdict, footer.reasons) = (judgement.verdict, judgement.reasons);
    let bytes = write(storage, end, &footer, &judgement.summary).map_err(io)?;
    if let Some((header, at)) = open {
        storage.write(&header.encode(), at).map_err(io)?;
    }
    let spent = trace.segments.iter().filter(|(offset, header)| *offset < behind && is_spent(header));
    for (offset, header) in spent {
        // The header stays, so that a reader without the footer knows that nothing is missing here.
        storage.write(&Header::new(Kind::Free, header.size).encode(), *offset).map_err(io)?;
        storage.give_back(offset + HEADER as u64, (offset + header.size).min(behind));
    }
    let Footer { verdict, reasons, .. } = footer;
    let calls = trace.calls_made();
    Ok(Finished { calls, bytes, segments: kept.len(), sealed, written: true, losses, verdict, reasons })
}

/// Bytes at the end of a footer that say where it begins.
const TAIL: usize = 16;
/// How a loss begins that was found as damage.
const AT: &str = "at offset ";

/// Whether a loss is damage that was found when the trace was closed.
pub fn is_damage(loss: &str) -> bool {
    loss.starts_with(AT)
}

/// What a footer says is lost: what the trace says, and such of its damage.
pub(crate) fn losses(trace: &Trace, is_lost: impl Fn(&&Damage) -> bool) -> Vec<(String, u64)> {
    let known: HashSet<&str> = trace.losses.iter().map(|(what, _)| what.as_str()).collect();
    let damage = trace.damage.iter().filter(is_lost);
    let damage = damage.map(|damage| (format!("{AT}{}: {}", damage.offset, damage.what), 1));
    // What an end that was interrupted has said already is said once.
    trace.losses.iter().cloned().chain(damage.filter(|(what, _)| !known.contains(what.as_str()))).collect()
}

/// The header of a chunk with these records, behind those that a recording with device times has.
fn of_no_thread(trace: &Trace, records: &[u8]) -> Header {
    let is_own = |(_, header): &&(u64, Header)| header.kind == Kind::Chunk && header.thread == timed::THREAD;
    let ordinal = trace.segments.iter().filter(is_own).map(|(_, header)| header.ordinal() + 1).max().unwrap_or(0);
    Header {
        thread: timed::THREAD,
        id: u128::from(ordinal) << 64,
        length: records.len() as u64,
        seal: checksum(records),
        ..Header::new(Kind::Chunk, round_up((HEADER + records.len()) as u64))
    }
}

/// The preambles that stand where a recorder puts them, now that the trace is finished.
struct Preambles {
    size: u64,
    offsets: Vec<u64>,
}

impl Preambles {
    fn hold(&self, offset: u64) -> bool {
        self.offsets.iter().any(|at| (*at..at + self.size).contains(&offset))
    }

    fn end(&self) -> u64 {
        self.offsets.iter().max().map_or(0, |last| last + self.size)
    }
}

/// Writes a damaged preamble anew from the other, if its place holds nothing else.
fn restore_preambles(storage: &impl Storage, trace: &Trace) -> io::Result<Preambles> {
    let content = encode(&trace.preamble);
    let whole = whole(Kind::Preamble, 0, &content);
    let size = whole.len() as u64;
    // What pads the segment may be cut off.
    let counts = &whole[..HEADER + content.len()];
    let is_intact = |offset: &u64| trace.map.get(*offset as usize..).is_some_and(|rest| rest.starts_with(counts));
    let mut offsets: Vec<u64> = [0, size].into_iter().filter(is_intact).collect();
    // With none, a later version wrote a preamble that says more: it is left as it is.
    if let [intact] = offsets[..] {
        let damaged = size - intact;
        let end = damaged + size;
        let other = |(offset, header): &(u64, Header)| {
            *offset < end && offset.saturating_add(header.size) > damaged && header.kind != Kind::Preamble
        };
        let rest = trace.map.get(end as usize..).unwrap_or(&[]);
        let ends_there = rest.is_empty() || Header::decode(rest).is_some();
        if ends_there && !trace.segments.iter().any(other) {
            storage.write(&whole, damaged)?;
            offsets.push(damaged);
        }
    }
    Ok(Preambles { size, offsets })
}

/// Refuses a trace that a process still writes.
pub fn not_in_use(trace: &Trace) -> Result<(), Error> {
    match writer(trace) {
        Some(pid) => Err(Error::InUse { path: trace.path.clone(), pid }),
        None => Ok(()),
    }
}

/// The process that still writes the trace, if there is one; its id may be that of another PID namespace.
pub fn writer(trace: &Trace) -> Option<u32> {
    writer::find(&trace.path, trace.preamble.pid)
}

/// The process, by its id here, that holds the recorder's lock on this file; none where the file system has
/// no locks, or nobody does.
pub fn lock_holder(file: &File) -> Option<u32> {
    writer::lock_holder(file).filter(|pid| *pid != 0)
}

/// This moment in nanoseconds since the start of the trace, if a process here still has it open.
pub fn now(trace: &Trace) -> Option<i64> {
    if !writer::has_open(&trace.path, trace.preamble.pid) {
        return None;
    }
    Some(clock().wrapping_sub(trace.started()) as i64)
}

/// This moment in nanoseconds of CLOCK_MONOTONIC_RAW, which the clock pairs of traces hold, too.
pub fn clock() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: an output struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Up to when calls lasted that have not returned, in nanoseconds since the start of the trace: this moment
/// while the process runs, or when it ended, if `record` saw that.
pub fn last_moment(trace: &Trace) -> Option<i64> {
    let ended = || trace.ended_at.map(|at| (at.wrapping_sub(trace.started()) as i64).clamp(-FAR, FAR));
    now(trace).or_else(ended)
}

/// What the footer lists: what is kept, and the preambles, which may have been written anew.
fn located(kept: &[&(u64, Header)], preambles: &Preambles) -> Vec<Located> {
    let own = preambles.offsets.iter().map(|offset| Located { kind: Kind::Preamble as u8, offset: *offset });
    let others = kept.iter().filter(|(offset, _)| !preambles.hold(*offset));
    own.chain(others.map(|(offset, h)| Located { kind: h.kind as u8, offset: *offset })).collect()
}

/// Segments whose content can be used.
fn usable_segments<'t>(trace: &'t Trace, is_spent: &impl Fn(&Header) -> bool) -> Vec<&'t (u64, Header)> {
    let usable = |offset: u64, header: &Header| match header.kind {
        Kind::Footer => false,
        Kind::Preamble => true,
        Kind::Blob => trace.blob(Hash(header.id)).is_some(),
        Kind::Chunk | Kind::Free if is_spent(header) => false,
        Kind::Chunk | Kind::Free => match trace.content(offset, header) {
            // Without damage, the reader has found that they match; the trace may be long.
            Some(content) => header.seal == 0 || trace.damage.is_empty() || checksum(content) == header.seal,
            None => header.length <= header.room(),
        },
    };
    trace.segments.iter().filter(|(offset, header)| usable(*offset, header)).collect()
}

fn sealed_chunks(trace: &Trace) -> HashSet<(u32, u128)> {
    let headers = trace.segments.iter().map(|(_, header)| header);
    headers.filter(|h| h.kind == Kind::Chunk && h.seal != 0).map(|h| (h.thread, h.id)).collect()
}

/// A chunk whose records stand elsewhere: it was drained, or was about to be reused.
fn is_spent(sealed: &HashSet<(u32, u128)>, header: &Header) -> bool {
    match header.kind {
        Kind::Free => true,
        Kind::Chunk => header.seal == 0 && sealed.contains(&(header.thread, header.id)),
        _ => false,
    }
}

/// Where the footer goes: behind everything that holds anything, damaged as it may be, but over an older
/// footer and over space that was set aside and never used. What a header claims beyond the end of the file
/// is nowhere.
fn end_of(trace: &Trace, holds: impl Fn(u64, &Header) -> bool) -> u64 {
    let (mut end, mut next) = (0, 0);
    let unclaimed = |from: u64, to: u64| {
        let bytes = trace.map.get(from as usize..to as usize).unwrap_or(&[]);
        let last = bytes.iter().rposition(|byte| *byte != 0);
        last.map_or(0, |last| round_up(from + last as u64 + 1))
    };
    for (offset, header) in &trace.segments {
        end = end.max(unclaimed(next, *offset));
        next = offset.saturating_add(header.size).min(round_up(trace.length()));
        if header.kind != Kind::Footer && holds(*offset, header) {
            end = next;
        }
    }
    match end_mark::footer_offset(&trace.map, &trace.segments) {
        // What is left of a footer.
        Some(closed) if closed == next => end,
        _ => end.max(unclaimed(next, trace.length())),
    }
}

/// Copies what is in shared memory to its places in the file, as a process does that ends by `exit`: it
/// counts there once the memory is gone. The places.
fn copy_home(storage: &impl Storage, trace: &Trace) -> io::Result<HashSet<u64>> {
    let mut homes = HashSet::new();
    for (offset, header) in trace.segments.iter().filter(|(offset, _)| trace.copies.is_known(*offset)) {
        let content = trace.copies.bytes_from(offset + HEADER as u64, u64::MAX).unwrap_or_default();
        let header = match header.kind {
            Kind::Chunk => *header,
            _ => Header::new(Kind::Free, header.size),
        };
        let own = Header { length: content.len() as u64, seal: checksum(content), ..header };
        let end = offset + header.size;
        storage.write(content, offset + HEADER as u64)?;
        if content.len() as u64 > header.room() - HEADER as u64 {
            // No recorder fills a chunk so far; there is no room for a header behind it.
            storage.write(&own.encode(), *offset)?;
            continue;
        }
        storage.write(&own.encode(), end - HEADER as u64)?;
        homes.insert(*offset);
    }
    Ok(homes)
}

/// Seals every open chunk, whose content is in its place; one that was cut off or torn ends with its last
/// whole record.
fn seal(storage: &impl Storage, trace: &Trace, kept: &[&(u64, Header)], homes: &HashSet<u64>) -> io::Result<usize> {
    let mut sealed = 0;
    for (offset, header) in kept.iter().filter(|(_, h)| h.kind == Kind::Chunk) {
        let size = header.size.min(round_up(trace.length()) - offset);
        if header.seal != 0 && size == header.size && trace.content(*offset, header).is_some() {
            continue;
        }
        let length = trace.whole_records(*offset, header);
        let content = trace.content(*offset, &Header { length, ..*header }).unwrap_or(&[]);
        storage.write(&Header { length, seal: checksum(content), size, ..*header }.encode(), *offset)?;
        if homes.contains(offset) {
            storage.write(&[0; HEADER], offset + size - HEADER as u64)?;
        }
        storage.give_back(offset + HEADER as u64 + length, offset + size);
        sealed += 1;
    }
    Ok(sealed)
}

/// Segments of the trace that hold something which can be used, but for its footer.
pub(crate) fn segments(trace: &Trace) -> Vec<(u64, Header)> {
    let sealed = sealed_chunks(trace);
    usable_segments(trace, &|header| is_spent(&sealed, header)).into_iter().copied().collect()
}

/// Writes the footer at `end` and returns the size of the file, which ends with it.
pub(crate) fn write(storage: &impl Storage, end: u64, footer: &Footer, summary: &[u8]) -> io::Result<u64> {
    let content = [&encode(footer), summary].concat();
    let size = round_up((HEADER + content.len() + TAIL) as u64);
    let header = Header { length: content.len() as u64, seal: checksum(&content), ..Header::new(Kind::Footer, size) };
    storage::append(storage, header, &content, end)?;
    // By which it is found.
    storage.write(&[&end.to_le_bytes()[..], &MAGIC].concat(), end + size - TAIL as u64)?;
    Ok(end + size)
}
