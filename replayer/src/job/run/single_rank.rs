//! Calls that concern other processes, in a single-rank replay. Recorded deliveries are written in place of
//! the launches of collectives. Memory of others is this replay's own, and its recorded contents are written
//! before the calls that use it.

use crate::base::addresses::GRANULE;
use crate::driver::calls::capture::CaptureCopy;
use crate::driver::result;
use crate::driver::stream::{Queue, context_of};
use crate::job::single_rank::{CapturedOperation, Delivery, REFUSED, UNHELD};
use crate::plan::Plan;
use crate::run::decision::Decision;
use crate::run::hazards;
use crate::run::state::Run;
use crate::run::worker::Worker;
use std::ops::Range;
use trace::api::types::Kind;
use trace::file::record;
use trace::model::stream::StreamHandle;
use trace::read::shared_handles;
use trace::read::shared_handles::{Crossing, What};
use trace::{Call, Function};

pub(crate) const OF_OTHERS: &str = "concerns processes that are not replayed";

const OF_NO_NODE: &str = "its graph has no node for it in the replay";

const ABOUT_NODES: &str = "queries a graph whose collectives are copies in the replay";

const OF_NO_MEMORY: &str = "its destination is memory that the replay does not have";

/// What is written in the place of a call, or before it, and what is said where that is not there.
pub(crate) fn deliveries<'p>(plan: &'p Plan, call: &Call) -> impl Iterator<Item = (&'p Delivery, &'static str)> {
    let alone = plan.job.single_rank.as_ref();
    let delivered = alone.and_then(|alone| alone.launches.get(&call.number)).into_iter().flatten();
    let held = alone.and_then(|alone| alone.held.get(&call.number)).into_iter().flatten();
    // What was not held is a reason to say `partly`, and the call is made.
    let held = held.filter(|one| one.lost.is_empty()).map(|one| (one, UNHELD));
    let of_graphs = alone.and_then(|alone| alone.of_graphs.get(&call.number)).into_iter().flatten();
    delivered.chain(of_graphs).map(|one| (one, REFUSED)).chain(held)
}

/// The live stream of a call, which may be the legacy one or the thread's own.
pub(crate) fn stream_of(run: &Run, call: &Call, function: &'static Function) -> Option<StreamHandle> {
    let live = match call.stream() {
        None | Some(0) => Some(0),
        Some(stream) => run.objects.live(Kind::Stream, stream),
    };
    Some(StreamHandle::new(function, live?))
}

/// Bytes of the trace, and the live addresses where they are to be written.
pub(crate) fn pieces<'t>(run: &Run<'t>, delivery: &Delivery, missing: &str) -> Result<Vec<(u64, &'t [u8])>, String> {
    if !delivery.lost.is_empty() {
        return Err(format!("{missing}: {}", delivery.lost));
    }
    let len = delivery.at.end - delivery.at.start;
    if len == 0 {
        return Ok(Vec::new());
    }
    let to = match delivery.of_graph {
        Some(operation) => run.graph_deliveries.place(operation, len).ok_or(OF_NO_NODE)?,
        None => run.placement.bound(&delivery.at).ok_or(OF_NO_MEMORY)?.word(),
    };
    let mut pieces = Vec::new();
    for (from, hash) in (0..len).step_by(record::PIECE).zip(&delivery.pieces) {
        let expected = (len - from).min(record::PIECE as u64);
        let bytes = run.trace.blob(*hash).filter(|bytes| bytes.len() as u64 == expected);
        let bytes = bytes.ok_or_else(|| format!("{missing}: part of the file is missing"))?;
        let left = delivery.left.get((from / record::PIECE as u64) as usize);
        let parts = match left.and_then(|left| run.trace.blob(*left)) {
            _ if left == Some(hash) => Vec::new(),
            Some(left) if left.len() == bytes.len() => changed(left, bytes),
            _ => std::iter::once(0..bytes.len()).collect(),
        };
        pieces.extend(parts.into_iter().map(|part| (to + from + part.start as u64, &bytes[part])));
    }
    Ok(pieces)
}

/// What is special about a call of such a replay.
pub(crate) fn decide(plan: &Plan, call: &Call, function: &'static Function) -> Option<Decision> {
    let alone = plan.job.single_rank.as_ref()?;
    if alone.refused.contains(&call.number) {
        return Some(Decision::Refuse(REFUSED));
    }
    if alone.replaces(call.number) {
        return Some(Decision::Deliver);
    }
    if alone.about_nodes.contains(&call.number) {
        return Some(Decision::Skip(ABOUT_NODES));
    }
    match shared_handles::crossing_of(function).filter(|_| call.succeeded())? {
        Crossing::Exports(What::Physical) => None,
        Crossing::Imports(What::Physical) if !alone.stand_ins.contains_key(&call.number) => None,
        Crossing::Imports(What::Memory) if !plan.memory.allocations.contains_key(&call.number) => {
            Some(Decision::Skip(OF_OTHERS))
        }
        Crossing::Imports(what) => Some(Decision::StandIn(what)),
        Crossing::Closes if alone.closing.contains_key(&call.number) => Some(Decision::Cross(Crossing::Closes)),
        _ => Some(Decision::Skip(OF_OTHERS)),
    }
}

impl<'t> Worker<'_, 't> {
    /// Writes what the collectives of a launch had delivered.
    pub(crate) fn deliver(&mut self, call: &Call<'t>, function: &'static Function) {
        let captured = self.run.plan.job.single_rank.as_ref().and_then(|alone| alone.captured.get(&call.number));
        let brought = match captured {
            Some(captured) => self.capture(call, function, captured).then_some(0),
            None => self.bring(call, function),
        };
        if let Some(bytes) = brought {
            self.tally.delivered += 1;
            self.tally.delivered_bytes += bytes;
        }
    }

    /// Copies in the place of collectives that were captured; false if they cannot be.
    fn capture(&mut self, call: &Call<'t>, function: &'static Function, captured: &[CapturedOperation]) -> bool {
        let run = self.run;
        let put = || {
            let stream = stream_of(run, call, function).ok_or("the replay does not have its stream")?;
            let mut copies = Vec::new();
            for CapturedOperation { operation, at } in captured.iter().filter(|one| !one.at.is_empty()) {
                let to = run.placement.bound(at).ok_or(OF_NO_MEMORY)?.word();
                let len = at.end - at.start;
                let from =
                    run.graph_deliveries.make(run.driver, *operation, len).map_err(|failure| failure.to_string())?;
                copies.push(CaptureCopy { to, from, len });
            }
            // SAFETY: both places are memory that is there: what was recorded, and of the replay's own.
            unsafe { run.driver.capture_copies(&copies, stream) }.map_err(|failure| failure.to_string())
        };
        let put: Result<(), String> = run.placement.relaxed(put);
        put.map_err(|why| self.refuse(call, function, &format!("cannot capture a copy in its place: {why}"))).is_ok()
    }

    /// Writes what memory of other processes had held before this call, or what collectives in the graph
    /// that it launches had delivered. False if that could not be done: then
    /// the call is not made.
    pub(crate) fn holds(&mut self, call: &Call<'t>, function: &'static Function) -> bool {
        let alone = self.run.plan.job.single_rank.as_ref();
        let is_held = alone.is_some_and(|alone| alone.held.contains_key(&call.number));
        let is_of_graph = alone.is_some_and(|alone| alone.of_graphs.contains_key(&call.number));
        if !(is_held || is_of_graph) || !call.succeeded() {
            return true;
        }
        let brought = self.bring(call, function);
        match brought {
            Some(bytes) if is_of_graph => self.tally.delivered_bytes += bytes,
            Some(bytes) => {
                self.tally.held += 1;
                self.tally.held_bytes += bytes;
            }
            None => {}
        }
        brought.is_some()
    }

    /// Writes bytes of the trace on the call's stream: how many, none if they could not be.
    fn bring(&mut self, call: &Call<'t>, function: &'static Function) -> Option<u64> {
        let run = self.run;
        let Some(stream) = stream_of(run, call, function) else {
            self.refuse(call, function, "the replay does not have its stream");
            return None;
        };
        hazards::compare_due(run, self.thread, call.begin, &mut self.tally);
        run.side_stream.submits(|| Queue::from_handle(context_of(run.driver, stream.handle), stream, self.thread));
        let mut written = 0;
        for (delivery, missing) in deliveries(run.plan, call) {
            let pieces = match pieces(run, delivery, missing) {
                Ok(pieces) => pieces,
                Err(why) => {
                    self.refuse(call, function, &why);
                    return None;
                }
            };
            for (to, bytes) in pieces {
                // SAFETY: the trace is mapped until the replay has ended.
                let put = || unsafe { run.driver.write_ordered(to, bytes, stream) };
                if let Err(failure) = run.placement.relaxed(put) {
                    let code = failure.code.unwrap_or(result::INVALID_VALUE);
                    if !self.is_same_fault(call, result::SUCCESS, code) {
                        self.diverged(call, "the result of the collective", "written".into(), failure.to_string());
                    }
                    return None;
                }
                written += bytes.len() as u64;
            }
        }
        Some(written)
    }

    /// Something of this replay's own for what another process had exported.
    pub(crate) fn stand_in(&mut self, call: &Call<'t>, function: &'static Function, what: What) {
        let run = self.run;
        if what == What::Memory {
            return self.stand_in_at_its_place(call, function);
        }
        let one = run.plan.job.single_rank.as_ref().and_then(|alone| alone.stand_ins.get(&call.number)).copied();
        let device = one.map(|one| one.device).or_else(|| run.plan.devices.used.first().copied()).unwrap_or(0);
        let (device, used) = (run.objects.device(device), one.map_or(0, |one| one.bytes));
        let (kind, made) = match what {
            What::Event => (Kind::Event, run.driver.create_event(false)),
            What::Pool => (Kind::MemoryPool, run.driver.create_pool(device)),
            _ => {
                let len = used.max(1).checked_next_multiple_of(GRANULE).unwrap_or(used);
                (Kind::Allocation, run.driver.create_physical(device, len))
            }
        };
        match (made, function.creates(kind).and_then(|at| call.output_of(at))) {
            (Ok(live), Some(recorded)) => {
                run.objects.bind(kind, recorded, live);
                self.tally.emulated += 1;
                self.compare(call, result::SUCCESS);
            }
            (Ok(_), None) => self.refuse(call, function, "its result was not recorded"),
            (Err(failure), _) => self.refuse(call, function, &format!("cannot create a substitute: {failure}")),
        }
    }
}

impl<'t> Worker<'_, 't> {
    /// Memory where the recorded process had that of another.
    fn stand_in_at_its_place(&mut self, call: &Call<'t>, function: &'static Function) {
        let planned = self.run.plan.memory.allocations.get(&call.number);
        match planned.map(|planned| self.run.placement.stand_in(planned)) {
            Some(Ok(())) => {
                self.tally.emulated += 1;
                self.compare(call, result::SUCCESS);
            }
            Some(Err(failure)) => self.refuse(call, function, &format!("cannot create a substitute: {failure}")),
            None => self.refuse(call, function, OF_OTHERS),
        }
    }
}

/// Where bytes are others than those that were left there. What lies between two such places that are close
/// to each other is one with them: each is a copy of its own.
fn changed(left: &[u8], bytes: &[u8]) -> Vec<Range<usize>> {
    const CLOSE: usize = 256;
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in left.iter().zip(bytes).enumerate().filter(|(_, (left, is))| left != is) {
        match found.last_mut().filter(|last| at - last.end < CLOSE) {
            Some(last) => last.end = at + 1,
            None => found.push(at..at + 1),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_changed_is_told_from_what_was_left() {
        let left = [0; 2000];
        let mut bytes = left;
        assert_eq!(changed(&left, &bytes), []);
        [0, 100, 355, 612, 1999].into_iter().for_each(|at| bytes[at] = 1);
        assert_eq!(changed(&left, &bytes), [0..356, 612..613, 1999..2000]);
    }
}
