//! CPU writes to memory that the device can reach, which no call shows.

use crate::file::record::{self, HEAD, WRITTEN_SIZE};
use crate::read::call::{Attachments, Call, Image, When};
use crate::read::index::body_of;
use crate::read::reader::Trace;
use std::collections::BTreeMap;
use std::ops::Range;

/// A CPU write, found at one moment.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// The record.
    pub about: record::Written,
    /// Index of the thread that found it: of a callback, the driver's.
    pub finder: u32,
    attachments: &'a [u8],
}

impl<'a> Written<'a> {
    /// In managed memory: the CPU may have written these bytes or only looked at them.
    pub fn is_seen(&self) -> bool {
        self.about.seen == record::SEEN
    }

    /// By a callback or, while it ran, by somebody else, for whose call it is told as well.
    pub fn is_recorded_twice(&self) -> bool {
        self.about.seen == record::TOLD
    }

    /// While the call waited, and maybe for work that waited for this.
    pub fn is_during_wait(&self) -> bool {
        matches!(self.about.seen, record::MEANWHILE | record::EITHER)
    }

    /// Meanwhile, if it was not the kernel itself.
    pub fn may_be_results(&self) -> bool {
        self.about.seen == record::EITHER
    }

    /// The pieces of memory, in the order of capture.
    pub fn images(&self) -> impl Iterator<Item = Image<'a>> + use<'a> {
        Attachments { bytes: self.attachments, words: &[], when: When::Entry }
    }
}

/// A CPU write found before one call, which need not be the writer's.
pub struct FoundWrite<'a> {
    /// All of it was there for every call, of whatever thread, that began at this time or later.
    pub time: u64,
    /// Number of the call before which it was found.
    pub call: u64,
    /// The bytes that were written.
    pub written: Written<'a>,
}

impl Trace {
    /// All that was found before calls, in the order in which it was found.
    pub fn found_writes(&self) -> Vec<FoundWrite<'_>> {
        let mut found = Vec::new();
        for call in self.calls().filter(|_| self.has_written()) {
            for written in call.written() {
                // What a call's own arguments led to was found when it had returned, and counts from its
                // beginning.
                let begin = written.about.begin;
                let time = if written.is_during_wait() { begin } else { begin.min(call.begin) };
                found.push(FoundWrite { time, call: call.number, written });
            }
        }
        found.sort_by_key(|found: &FoundWrite| (found.time, found.call));
        found
    }

    /// What was found when the process ended: it is told like what is found before a call, of which there is
    /// none.
    pub fn found_at_the_end(&self) -> impl Iterator<Item = Written<'_>> {
        let behind = self.threads.iter().zip(0..).map(|(thread, index)| (index, thread.calls as u32));
        behind.flat_map(|(thread, call)| self.written_by(thread, call)).filter(|written| written.about.run == 0)
    }

    /// The key under which the preamble says that host memory was followed.
    pub const FOLLOWS: &'static str = "follows host memory";

    /// Whether the recorder looked for what the CPU writes without a call. Traces of earlier recorders do not
    /// say.
    pub fn follows_host_memory(&self) -> bool {
        self.preamble.more.iter().any(|(key, _)| key == Trace::FOLLOWS)
    }

    /// Whether the CPU wrote anything without a call, as far as was found.
    pub fn has_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Calls that handed over a callback which ran.
    pub fn callers_back(&self) -> Vec<Call<'_>> {
        if self.written.is_empty() {
            return Vec::new();
        }
        let ran = |call: &Call| self.written_by(call.thread, call.sequence).any(|written| written.about.run > 0);
        self.calls().filter(ran).collect()
    }

    /// When callbacks of graphs ran another time, as later launches of their graphs had them, by thread and
    /// time.
    pub(crate) fn later_runs(&self) -> Vec<(u32, Range<u64>)> {
        let all = self.written.keys().flat_map(|(thread, call)| self.written_by(*thread, *call));
        let later = all.filter(|written| written.about.run > 1);
        let mut runs: Vec<_> = later.map(|run| (run.finder, run.about.begin..run.about.end)).collect();
        runs.sort_unstable_by_key(|(thread, times)| (*thread, times.start));
        runs
    }

    fn written_by(&self, thread: u32, call: u32) -> impl Iterator<Item = Written<'_>> {
        let places = self.written.get(&(thread, call)).into_iter().flatten();
        places.filter_map(|(finder, at)| {
            let found = self.record(*at)?;
            let about = body_of::<record::Written>(&found.bytes[HEAD..])?;
            Some(Written { about, finder: *finder, attachments: found.bytes.get(WRITTEN_SIZE..)? })
        })
    }
}

impl<'a> Call<'a> {
    /// Whether the trace holds anything that the CPU wrote beside it.
    pub fn has_written(&self) -> bool {
        self.trace.written.contains_key(&(self.thread, self.sequence))
    }

    /// What the CPU had written by the time of this call.
    pub fn written(&self) -> impl Iterator<Item = Written<'a>> + use<'a> {
        self.trace.written_by(self.thread, self.sequence).filter(|written| written.about.run == 0)
    }

    /// What the callback that this call handed over did, by the number of the run, from 0 on: every run is
    /// there, with or without memory, unless the file has lost it.
    pub fn callback_runs(&self) -> BTreeMap<u32, Vec<Written<'a>>> {
        let mut runs: BTreeMap<u32, Vec<Written>> = BTreeMap::new();
        for written in self.trace.written_by(self.thread, self.sequence) {
            if let Some(run) = written.about.run.checked_sub(1) {
                runs.entry(run).or_default().push(written);
            }
        }
        runs
    }
}
