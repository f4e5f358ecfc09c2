//! The processes of a job on one time axis: their lanes, merged into those of the process that began first,
//! and their operations on NCCL's communicators.

use super::compare::shifted;
use super::event::{Category, Flags, NO_CALL};
use super::lane::{Lane, Source};
use super::model::{Model, Name};
use super::open::Opened;
use crate::text::{bytes, tame};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;
use trace::Trace;
use trace::read::collective::Operation as Told;

/// One process of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Path of the trace.
    pub path: PathBuf,
    /// `rank 3`, or `process 123` of one that has none.
    pub label: String,
    /// What is added to its times, ns.
    pub shift: i64,
}

/// A job: its directory, and its processes, with the one that began first in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specs {
    /// Path of the directory.
    pub directory: PathBuf,
    /// The processes.
    pub all: Vec<Spec>,
}

/// The other processes of a job, with their operations on communicators.
pub struct Job {
    pub(crate) specs: Specs,
    /// All processes but the first.
    pub peers: Vec<Opened>,
    /// By lane.
    operations: FxHashMap<usize, Vec<Operation>>,
}

/// An operation on a communicator. Times are ns on the axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// NCCL's number of the communicator, which is the same at all ranks.
    pub communicator: u64,
    /// Number of the operation among those of its kind, which all ranks count alike.
    pub number: u64,
    /// False for a send or a receive.
    pub is_collective: bool,
    /// Of a send or receive.
    pub peer: Option<i32>,
    pub(crate) is_captured: bool,
    pub(crate) begin: u64,
    /// When the work was known to be done that it gave to the device.
    pub done: Option<u64>,
}

/// The first process with the lanes of the others.
pub fn join(specs: Specs, first: &Opened, peers: Vec<Opened>) -> Opened {
    let mut all = first.shared_copy();
    let mut job = Job { specs, peers, operations: FxHashMap::default() };
    let own = first.model.lanes.len();
    add_operations(&mut all.model, first, &mut job.operations, (0, 0));
    for (at, peer) in job.peers.iter().enumerate() {
        let process = at as u32 + 1;
        let shift = job.specs.all.get(at + 1).map_or(0, |spec| spec.shift);
        let offset = all.model.summary.names.len() as u32;
        all.model.summary.names.extend(peer.model.summary.names.iter().cloned());
        for lane in &peer.model.lanes {
            if matches!(lane.source, Source::Second(_) | Source::Thread { depth: 1.., .. } | Source::Range { .. }) {
                continue;
            }
            let mut moved = shifted(lane.clone(), shift, offset, lane.flags.to_vec());
            moved.source = Source::Peer { process, inner: Box::new(lane.source.clone()) };
            all.model.lanes.push(moved);
        }
        add_operations(&mut all.model, peer, &mut job.operations, (process, shift));
    }
    let added = all.model.lanes[own..].iter().filter_map(|lane| Some(lane.end(lane.len().checked_sub(1)?)));
    all.model.summary.end = added.fold(all.model.summary.end, u64::max);
    all.job = Some(Arc::new(job));
    all
}

/// A lane for each communicator of a process. Operations on one that were under way at once end where the
/// next began.
fn add_operations(
    model: &mut Model,
    opened: &Opened,
    operations: &mut FxHashMap<usize, Vec<Operation>>,
    (process, shift): (u32, i64),
) {
    // By an index a trace knows its calls alone.
    let read = if opened.index.is_some() { Trace::open(&opened.path).ok() } else { None };
    let trace = read.as_ref().unwrap_or(&opened.trace);
    let end = (opened.summary().end as i64).saturating_add(shift).max(0) as u64;
    let mut by_communicator: Vec<(u32, Vec<(Operation, u32)>)> = Vec::new();
    let mut known: FxHashMap<String, u32> = FxHashMap::default();
    for told in trace.operations() {
        let Some(communicator) = trace.communicators.iter().find(|of| of.number == told.communicator) else { continue };
        let name = *known.entry(described(&told)).or_insert_with_key(|text| {
            model.summary.names.push(Name::of_operation(text));
            model.summary.names.len() as u32 - 1
        });
        let at = |ticks: u64| trace.nanoseconds(ticks).saturating_add(shift).max(0) as u64;
        let done = told.submitted_at().filter(|_| !told.is_captured()).and_then(|(time, thread)| {
            let done = done_by(&opened.model, thread, trace.nanoseconds(time).max(0) as u64)?;
            Some((done as i64).saturating_add(shift).max(0) as u64)
        });
        let operation = Operation {
            communicator: communicator.id,
            number: told.number,
            is_collective: told.is_collective(),
            peer: told.peer(),
            is_captured: told.is_captured(),
            begin: at(told.begin()),
            done,
        };
        let place = by_communicator.iter().position(|(number, _)| *number == told.communicator);
        let place = place.unwrap_or_else(|| {
            by_communicator.push((told.communicator, Vec::new()));
            by_communicator.len() - 1
        });
        by_communicator[place].1.push((operation, name));
    }
    for (communicator, mut all) in by_communicator {
        all.sort_by_key(|(operation, _)| operation.begin);
        let (mut lane, mut begins) = (Vec::new(), all.iter().map(|(operation, _)| operation.begin).skip(1));
        for (operation, name) in &all {
            let next = begins.next().unwrap_or(end).max(operation.begin);
            // Of a capture nothing runs yet.
            let done = if operation.is_captured { Some(operation.begin) } else { operation.done };
            let until = done.unwrap_or(end).clamp(operation.begin, next);
            let flags = Flags::new(Category::Submit, false, done.is_none()).0;
            lane.push((operation.begin, until - operation.begin, *name, flags));
        }
        operations.insert(model.lanes.len(), all.into_iter().map(|(operation, _)| operation).collect());
        model.lanes.push(Lane::of_operations(Source::Operations { process, communicator }, &lane, NO_CALL));
    }
}

/// When the work was known to be done that the thread's last call before this time had given to a device.
fn done_by(model: &Model, thread: u32, time: u64) -> Option<u64> {
    let source = Source::Thread { thread, depth: 0 };
    let calls = model.lanes.iter().find(|lane| lane.source == source)?;
    let call = calls.call[calls.first_at(time.saturating_add(1)).checked_sub(1)?];
    let (lane, at) = model.find_work(call)?;
    let lane = &model.lanes[lane];
    (!Flags(lane.flags[at]).open()).then(|| lane.end(at))
}

/// `AllReduce(16 B)`
fn described(told: &Told) -> String {
    let peer = told.peer().map(|peer| format!("rank {peer}"));
    let all: Vec<String> = told.bytes().map(bytes).into_iter().chain(peer).collect();
    tame(&format!("{}({})", told.function(), all.join(", ")))
}

impl Job {
    /// Of a process, the first being 0.
    pub(crate) fn label(&self, process: u32) -> &str {
        self.specs.all.get(process as usize).map_or("?", |spec| &spec.label)
    }

    /// None of the first.
    pub(crate) fn peer(&self, process: u32) -> Option<&Opened> {
        self.peers.get((process as usize).checked_sub(1)?)
    }

    /// The operation of the event at this index of a lane.
    pub fn operation(&self, lane: usize, at: usize) -> Option<&Operation> {
        self.operations.get(&lane)?.get(at)
    }

    /// The same operation at other ranks, in the order of the lanes; a send and its receive are two.
    pub(crate) fn counterparts(&self, lane: usize, at: usize) -> Vec<(usize, usize)> {
        let Some(wanted) = self.operation(lane, at).filter(|wanted| wanted.is_collective) else { return Vec::new() };
        let is_same = |other: &Operation| {
            other.is_collective && (other.communicator, other.number) == (wanted.communicator, wanted.number)
        };
        let others = self.operations.iter().filter(|(other, _)| **other != lane);
        let mut found: Vec<(usize, usize)> =
            others.filter_map(|(other, all)| Some((*other, all.iter().position(is_same)?))).collect();
        found.sort_unstable();
        found
    }

    /// The lanes of ranks that have the communicator of a collective, and have not begun it.
    pub(crate) fn missing_ranks(&self, lane: usize, at: usize) -> Vec<usize> {
        let Some(wanted) = self.operation(lane, at).filter(|wanted| wanted.is_collective) else { return Vec::new() };
        let others = self.counterparts(lane, at);
        let has_begun = |of: usize| of == lane || others.iter().any(|(other, _)| *other == of);
        let on_it = |all: &[Operation]| all.first().is_some_and(|first| first.communicator == wanted.communicator);
        let lanes = self.operations.iter().filter(|(of, all)| on_it(all) && !has_begun(**of)).map(|(of, _)| *of);
        let mut found: Vec<usize> = lanes.collect();
        found.sort_unstable();
        found
    }

    /// The one at the next rank: behind the last the first.
    pub(crate) fn next(&self, lane: usize, at: usize) -> Option<(usize, usize)> {
        let all = self.counterparts(lane, at);
        all.iter().find(|(other, _)| *other > lane).or(all.first()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(communicator: u64, number: u64) -> Operation {
        let (peer, done) = (None, None);
        Operation { communicator, number, is_collective: true, peer, is_captured: false, begin: number, done }
    }

    #[test]
    fn the_same_collective_at_other_ranks() {
        let of =
            |all: &[(u64, u64)]| all.iter().map(|(communicator, number)| operation(*communicator, *number)).collect();
        let operations =
            [(3, of(&[(7, 1), (7, 2)])), (5, of(&[(7, 1)])), (6, of(&[(8, 1)])), (9, of(&[(7, 1), (7, 2)]))];
        let specs = Specs { directory: "run".into(), all: Vec::new() };
        let job = Job { specs, peers: Vec::new(), operations: operations.into_iter().collect() };
        assert_eq!(job.counterparts(3, 0), [(5, 0), (9, 0)]);
        assert_eq!((job.next(3, 0), job.next(5, 0), job.next(9, 0)), (Some((5, 0)), Some((9, 0)), Some((3, 0))));
        assert_eq!(
            (job.missing_ranks(3, 1), job.missing_ranks(3, 0), job.missing_ranks(6, 0)),
            (vec![5], vec![], vec![])
        );
        // One has not come to it; another communicator is another.
        assert_eq!((job.next(3, 1), job.next(9, 1), job.next(6, 0)), (Some((9, 1)), Some((3, 1)), None));
        let mut sent = operation(7, 1);
        sent.is_collective = false;
        let job = Job { operations: [(1, vec![sent.clone()]), (2, vec![sent])].into_iter().collect(), ..job };
        assert_eq!(job.next(1, 0), None);
    }
}
