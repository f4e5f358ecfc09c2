//! The lanes of threads, filled call by call.

use super::column::Column::Owned;
use super::lane::{Lane, Source};
use super::tables::Collected;
use analysis::findings::holes::GapObservations;
use rustc_hash::FxHashMap;

/// A call in the form in which its lane will store it.
pub(crate) struct LaneCall {
    pub(crate) begin: u64,
    /// u64::MAX: it did not return.
    pub end: u64,
    pub(crate) call: u32,
    pub(crate) sequence: u32,
    pub(crate) name: u32,
    pub(crate) flags: u8,
    pub(crate) inner: bool,
}

/// The calls of a thread, lane by lane.
#[derive(Default)]
pub(crate) struct Thread {
    pub(crate) lanes: Vec<Lane>,
    /// Calls that enclose what comes next: their ends, ns.
    open: Vec<u64>,
    calls: u64,
    /// Where the count of calls and the numbers in the file part: (calls so far, number on the thread).
    pub jumps: Vec<(u64, u32)>,
    pub(crate) between: GapObservations,
}

/// All data that is filled call by call, whatever their order on other threads.
#[derive(Default)]
pub(crate) struct Calls {
    /// When the last thing happened, ns.
    pub end: u64,
    pub(crate) threads: FxHashMap<u32, Thread>,
    /// By function id.
    pub functions: Vec<Collected>,
    pub(crate) concerned: Vec<u32>,
}

impl Calls {
    pub(crate) fn add_calls(
        &mut self,
        by_thread: FxHashMap<u32, Vec<LaneCall>>,
        collected: Vec<Collected>,
        concerned: Vec<u32>,
    ) {
        for (thread, found) in by_thread {
            let lanes = self.threads.entry(thread).or_default();
            found.into_iter().for_each(|found| lanes.push(thread, found));
        }
        for (into, from) in self.functions.iter_mut().zip(collected) {
            into.merge(from);
        }
        self.concerned.extend(concerned);
    }
}

impl Thread {
    fn push(&mut self, thread: u32, found: LaneCall) {
        let between = &mut self.between;
        if self.calls == 0 || found.sequence != between.expected {
            self.jumps.push((self.calls, found.sequence));
            between.jump(thread, found.sequence, found.begin, found.call);
            // What had not returned by then may have: nothing tells when.
            self.lanes.iter_mut().for_each(|lane| cut_last(lane, between.latest));
        }
        between.expected = found.sequence.wrapping_add(1);
        between.latest = between.latest.max(if found.end == u64::MAX { found.begin } else { found.end });
        self.calls += 1;
        if found.inner {
            while self.open.last().is_some_and(|end| *end <= found.begin) {
                self.open.pop();
            }
        } else {
            self.open.clear();
        }
        let depth = self.open.len();
        self.open.push(found.end);
        while self.lanes.len() <= depth {
            let depth = self.lanes.len() as u32;
            self.lanes.push(Lane::empty(Source::Thread { thread, depth }));
        }
        push(&mut self.lanes[depth], found.begin, found.end, found.name, found.flags, found.call);
    }
}

/// Ends the last event of a lane by then.
pub(crate) fn cut_last(lane: &mut Lane, end: u64) {
    let (Owned(begins), Owned(lengths), Owned(long)) = (&lane.begin, &mut lane.length, &mut lane.long) else {
        unreachable!("a lane under construction is not mapped");
    };
    let (Some(last), Some(length)) = (begins.last(), lengths.last_mut()) else { return };
    let (at, room) = (begins.len() as u64 - 1, end.saturating_sub(*last));
    let was = match long.last() {
        Some([of, length]) if *of == at => *length,
        _ => u64::from(*length),
    };
    if was > room {
        long.pop_if(|[of, _]| *of == at);
        if room < u32::MAX.into() {
            *length = room as u32;
        } else {
            (*length, _) = (u32::MAX, long.push([at, room]));
        }
    }
}

/// Puts an event behind the others; the one before ends by then at the latest.
pub(crate) fn push(lane: &mut Lane, begin: u64, end: u64, name: u32, flags: u8, call: u32) {
    cut_last(lane, begin);
    let (Owned(begins), Owned(lengths), Owned(long), Owned(names), Owned(all), Owned(calls)) =
        (&mut lane.begin, &mut lane.length, &mut lane.long, &mut lane.name, &mut lane.flags, &mut lane.call)
    else {
        unreachable!("a lane under construction is not mapped");
    };
    let length = end.saturating_sub(begin);
    if length >= u32::MAX.into() {
        long.push([begins.len() as u64, length]);
    }
    begins.push(begin);
    lengths.push(length.min(u32::MAX.into()) as u32);
    names.push(name);
    all.push(flags);
    calls.push(call);
}

/// Ends what did not return when the trace does.
pub(crate) fn closed(mut lane: Lane, end: u64) -> Lane {
    cut_last(&mut lane, end);
    lane
}
