//! Unreadable pieces of a trace, as far as the records around them show.
//!
//! A thread's calls are numbered, and each chunk states the number of its first: if numbers are missing,
//! calls are lost.

use crate::text::numbers::{bytes, counted, duration};
use bincode::{Decode, Encode};
use trace::Trace;
use trace::file::segment::{HEADER, Header, Kind};

/// Missing calls of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hole {
    /// Number of the recorded thread.
    pub thread: u32,
    /// From when on nothing is known, and until when: the end of the call before and the beginning of the one
    /// behind, else the trace's own. Nanoseconds.
    pub begin: u64,
    /// Nanoseconds.
    pub end: u64,
    /// The first of them, by its number on the thread; and the first that is there again, if any is.
    pub first: u32,
    /// The first recorded call behind the hole, by its number on the thread.
    pub next: Option<u32>,
    /// The first call of the trace that stands behind it on its thread.
    pub behind: Option<u32>,
    /// Where the bytes lie that could not be read, and how many; none if nothing tells.
    pub bytes: Vec<(u64, u64)>,
    /// What was found there.
    pub what: String,
}

impl Hole {
    /// How many calls, if the next chunk tells.
    pub fn calls(&self) -> Option<u32> {
        self.next.map(|next| next - self.first)
    }

    /// `t1: 812 calls lost`
    pub fn title(&self) -> String {
        match self.calls() {
            Some(calls) => format!("t{}: {} lost", self.thread, counted(calls.into(), "call")),
            None => format!("t{}: all calls from here on lost", self.thread),
        }
    }

    /// Which calls, for how long, and which bytes.
    pub fn about(&self) -> String {
        let calls = match self.next {
            Some(next) => format!("the thread's calls {} to {}", self.first, next - 1),
            None => format!("the thread's calls from {}", self.first),
        };
        let mut text = format!("{calls}, no data for {}", duration(self.end - self.begin));
        for (offset, length) in self.bytes.iter().take(4) {
            text.push_str(&format!(", bytes {offset}..{} ({})", offset + length, bytes(*length)));
        }
        text
    }
}

/// More are not listed: such a file is no trace any more.
const LISTED: usize = 10_000;
/// What a file can tell of a thread that has no call in it.
const THREADS: u32 = 1 << 20;

/// The gaps that a thread's calls reveal between them.
#[derive(Default, Clone)]
pub struct GapObservations {
    /// The holes found so far.
    pub holes: Vec<Hole>,
    /// The end of the latest call that has one, ns.
    pub latest: u64,
    /// The number that the next call should have.
    pub expected: u32,
}

impl GapObservations {
    /// A call with another number than expected, the `call`th of the trace.
    pub fn jump(&mut self, thread: u32, sequence: u32, begin: u64, call: u32) {
        if sequence > self.expected && self.holes.len() < LISTED {
            self.holes.push(Hole {
                thread,
                begin: self.latest.min(begin),
                end: begin,
                first: self.expected,
                next: Some(sequence),
                behind: Some(call),
                bytes: Vec::new(),
                what: String::new(),
            });
        }
    }
}

/// The holes of all threads with what the file says of each. `threads`: what was between their calls; `end`:
/// of the trace.
pub fn holes(trace: &Trace, mut threads: Vec<(u32, GapObservations)>, end: u64) -> Vec<Hole> {
    let mut chunks: Vec<(u64, Header)> =
        trace.segments.iter().filter(|(_, header)| header.kind == Kind::Chunk).copied().collect();
    // Of two copies of a chunk the sealed one counts.
    chunks.sort_by_key(|(_, header)| (header.thread, header.ordinal(), header.seal == 0));
    chunks.dedup_by_key(|(_, header)| (header.thread, header.ordinal()));
    let damaged = |(offset, header): &(u64, Header)| {
        let segment = *offset..offset.saturating_add(header.size);
        trace.damage.iter().find(|damage| segment.contains(&damage.offset))
    };
    for chunk in &chunks {
        let (thread, ordinal) = (chunk.1.thread, chunk.1.ordinal());
        if damaged(chunk).is_none() || thread >= THREADS {
            continue;
        }
        let at = threads.iter().position(|(of, _)| *of == thread).unwrap_or_else(|| {
            threads.push((thread, GapObservations::default()));
            threads.len() - 1
        });
        let between = &mut threads[at].1;
        // What is behind the last call that is there has no call to tell of it.
        let mut later = chunks.iter().filter(|(_, of)| of.thread == thread && of.ordinal() > ordinal);
        let is_last = later.all(|(_, of)| of.first_call() >= between.expected.into());
        let is_known = between.holes.last().is_some_and(|hole| hole.next.is_none());
        if is_last && !is_known && lost_bytes(trace, chunk, between.expected).is_some() {
            between.holes.push(Hole {
                thread,
                begin: between.latest.min(end),
                end,
                first: between.expected,
                next: None,
                behind: None,
                bytes: Vec::new(),
                what: String::new(),
            });
        }
    }
    let mut all: Vec<Hole> = threads.into_iter().flat_map(|(_, between)| between.holes).take(LISTED).collect();
    for hole in &mut all {
        let own = chunks.iter().filter(|(_, header)| header.thread == hole.thread);
        let until = hole.next.unwrap_or(u32::MAX);
        let begun = own.filter(|(_, header)| header.first_call() < until.into());
        let lost = begun.filter_map(|chunk| Some((chunk, lost_bytes(trace, chunk, hole.first)?)));
        // Chunks before the one that holds its first call were read, or are a hole of their own.
        let lost: Vec<_> = lost.skip_while(|(chunk, _)| later_begins(&chunks, chunk, hole.first)).collect();
        (hole.bytes, hole.what) = match lost.first() {
            Some((chunk, _)) => {
                let what = damaged(chunk).map_or_else(String::new, |damage| damage.what.clone());
                (lost.iter().map(|(_, bytes)| *bytes).collect(), what)
            }
            None => unlisted(trace),
        };
    }
    all.sort_by_key(|hole| (hole.begin, hole.thread));
    all
}

/// Whether a later chunk of its thread begins with this call or before it.
fn later_begins(chunks: &[(u64, Header)], (_, of): &(u64, Header), call: u32) -> bool {
    chunks.iter().any(|(_, other)| {
        (other.thread, true) == (of.thread, other.ordinal() > of.ordinal()) && other.first_call() <= call.into()
    })
}

/// The bytes of a chunk from the record of this call on, if they could not be read.
fn lost_bytes(trace: &Trace, (offset, header): &(u64, Header), first: u32) -> Option<(u64, u64)> {
    let start = offset + HEADER as u64;
    let length = header.length.min(header.room());
    trace.damage.iter().find(|damage| (*offset..offset.saturating_add(header.size)).contains(&damage.offset))?;
    let kept = if u64::from(first) > header.first_call() { trace.whole_records(*offset, header) } else { 0 };
    (kept < length).then_some((start + kept, length - kept))
}

/// Of a chunk whose header is gone: the only piece of the file that no segment covers, if there is only one.
fn unlisted(trace: &Trace) -> (Vec<(u64, u64)>, String) {
    let mut segments: Vec<(u64, u64)> =
        trace.segments.iter().map(|(offset, header)| (*offset, offset.saturating_add(header.size))).collect();
    segments.sort_unstable();
    let (mut free, mut covered) = (Vec::new(), 0);
    for (from, to) in segments.into_iter().chain([(trace.length(), u64::MAX)]) {
        if from > covered {
            free.push((covered, from - covered));
        }
        covered = covered.max(to);
    }
    match free.as_slice() {
        [(offset, bytes)] => {
            let found = trace.damage.iter().find(|damage| (*offset..offset + bytes).contains(&damage.offset));
            (vec![(*offset, *bytes)], found.map_or_else(|| "no segment there".into(), |found| found.what.clone()))
        }
        [] => (Vec::new(), "its chunk is not in the file".into()),
        many => (Vec::new(), format!("its chunk is in one of {} unreadable ranges of the file", many.len())),
    }
}
