//! The exported processes, on one time axis.
//!
//! Times of a trace count from its own start. Those of one host are read from one clock, as long as the host
//! was not restarted between them; for other hosts, or after a restart, the time of day counts.

use trace::Trace;
use trace::file::preamble::{Preamble, RANK};

/// A trace with its place on the common time axis.
pub struct Process<'t> {
    /// The process's trace.
    pub trace: &'t Trace,
    /// Among those of the export.
    pub index: usize,
    /// Its host, among those of the export.
    pub host: usize,
    /// Among how many processes.
    pub of: usize,
    /// When its trace starts, in nanoseconds since the first one did.
    start: i64,
    /// When the first trace starts, in nanoseconds since 1970.
    pub epoch: u64,
}

/// How far the time of day may move against a host's clock, in nanoseconds, before it was started again.
const ONE_RUN: u64 = 60_000_000_000;

impl<'t> Process<'t> {
    /// Places all traces on one axis, by the clock of their host or the time of day.
    pub fn all(traces: &'t [Trace]) -> Vec<Process<'t>> {
        let mut hosts: Vec<&str> = Vec::new();
        let mut all: Vec<Process> = Vec::new();
        for (index, trace) in traces.iter().enumerate() {
            let known = hosts.iter().position(|host| *host == trace.preamble.host);
            let host = known.unwrap_or_else(|| {
                hosts.push(&trace.preamble.host);
                hosts.len() - 1
            });
            let beside = all.iter().find(|other| other.host == host && are_of_one_run(other.trace, trace));
            let start = match (beside, all.first()) {
                (Some(beside), _) => beside.start.saturating_add(difference(beside.trace.started(), trace.started())),
                (None, Some(first)) => difference(first.trace.started_on(), trace.started_on()),
                (None, None) => 0,
            };
            all.push(Process { trace, index, host, of: traces.len(), start, epoch: 0 });
        }
        let first = all.iter().map(|process| process.start).min().unwrap_or(0);
        all.iter_mut().for_each(|process| process.start = process.start.saturating_sub(first));
        let epoch = all.iter().filter(|process| process.start == 0).map(|process| process.trace.started_on()).min();
        all.iter_mut().for_each(|process| process.epoch = epoch.unwrap_or(0));
        all
    }

    /// When each starts, in nanoseconds since the first does.
    pub fn starts(traces: &[Trace]) -> Vec<u64> {
        Process::all(traces).iter().map(|process| process.start.max(0) as u64).collect()
    }

    /// The first of all traces is not here: it started so many nanoseconds before the first of these.
    pub fn begin_later(&mut self, nanoseconds: u64) {
        self.start = self.start.saturating_add_unsigned(nanoseconds);
        self.epoch = self.epoch.saturating_sub(nanoseconds);
    }

    /// When its trace starts, in nanoseconds since the first of the traces does.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// Nanoseconds since the first of the traces starts.
    pub fn nanoseconds(&self, ticks: u64) -> i64 {
        self.trace.nanoseconds(ticks).saturating_add(self.start)
    }

    /// Rank in the job, if its launcher set one.
    pub fn rank(&self) -> Option<u64> {
        self.trace.preamble.number(RANK)
    }

    /// The program, and what tells the process from the others.
    pub fn title(&self) -> String {
        let about = &self.trace.preamble;
        let program = about.program.rsplit('/').next().unwrap_or(&about.program);
        match (self.of, self.rank()) {
            (1, _) => program.into(),
            (_, Some(rank)) => format!("rank {rank} {program} ({}, {})", about.host, about.pid),
            (_, None) => format!("{program} ({}, {})", about.host, about.pid),
        }
    }

    /// A number of the process, or of one of its threads, that no other host's has: they have 22 bits at
    /// most.
    pub fn number(&self, id: u32) -> u32 {
        const BITS: u32 = 22;
        id.wrapping_add((self.host as u32) << BITS) & (u32::MAX >> 1)
    }
}

/// By trace: its number, from 1, among those of which `of` is the same, by the times at which they were
/// begun. Of two that were begun at once, which are of one recording, it is the same.
pub fn by_time<T: PartialEq>(traces: &[Trace], of: impl Fn(&Preamble) -> T) -> Vec<usize> {
    let begun: Vec<(T, u64)> = traces.iter().map(|trace| (of(&trace.preamble), trace.preamble.created)).collect();
    let is_earlier = |one: &(T, u64), other: &(T, u64)| one.0 == other.0 && one.1 < other.1;
    begun.iter().map(|one| 1 + begun.iter().filter(|other| is_earlier(other, one)).count()).collect()
}

fn difference(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from) as i64
}

/// Of one host: whether it was not started again between them.
fn are_of_one_run(one: &Trace, other: &Trace) -> bool {
    let by_clock = difference(one.started(), other.started());
    let by_day = difference(one.started_on(), other.started_on());
    by_clock.abs_diff(by_day) < ONE_RUN
}
