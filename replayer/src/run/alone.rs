//! Calls about other processes, in a replay of one without the others: what collectives delivered is written
//! in the place of their launches, and memory of others is memory of this replay's own.

use crate::addresses::GRANULE;
use crate::driver::stream::{Queue, context_of};
use crate::driver::{Failure, result};
use crate::plan::alone::{Delivery, REFUSED};
use crate::run::decision::Decision;
use crate::run::hazards;
use crate::run::state::Run;
use crate::run::worker::Worker;
use trace::api::types::Kind;
use trace::crossing::{Crossing, What};
use trace::model::stream::StreamHandle;
use trace::{Call, Function, crossing, record};

const OF_OTHERS: &str = "other processes are not here";

/// What is special about a call of such a replay.
pub(super) fn decide(run: &Run, call: &Call, function: &'static Function) -> Option<Decision> {
    let alone = run.plan.alone.as_ref()?;
    if alone.refused.contains(&call.number) {
        return Some(Decision::Refuse(REFUSED));
    }
    if alone.launches.contains_key(&call.number) {
        return Some(Decision::Deliver);
    }
    match crossing::of(function).filter(|_| call.succeeded())? {
        Crossing::Exports(What::Physical) => None,
        Crossing::Imports(What::Physical) if !alone.stand_ins.contains_key(&call.number) => None,
        Crossing::Imports(what @ (What::Physical | What::Event | What::Pool)) => Some(Decision::StandIn(what)),
        _ => Some(Decision::Skip(OF_OTHERS)),
    }
}

impl<'t> Worker<'_, 't> {
    /// Writes what the collectives of a launch had delivered.
    pub(super) fn deliver(&mut self, call: &Call<'t>, function: &'static Function) {
        let run = self.run;
        let deliveries = run.plan.alone.as_ref().and_then(|alone| alone.launches.get(&call.number));
        let stream = call.stream().and_then(|stream| run.objects.live(Kind::Stream, stream));
        let Some((deliveries, stream)) = deliveries.zip(stream) else {
            return self.refuse(call, function, "its stream is not here");
        };
        let named = StreamHandle::new(function, stream);
        hazards::compare_due(run, self.thread, call.begin, &mut self.tally);
        run.side_stream.submits(|| Queue::of(context_of(run.driver, stream), named, self.thread));
        let mut written = 0;
        for delivery in deliveries {
            match self.write(delivery, named) {
                Ok(bytes) => written += bytes,
                Err(Undelivered::Refused(why)) => return self.refuse(call, function, &why),
                Err(Undelivered::Failed(failure)) => {
                    let code = failure.code.unwrap_or(result::INVALID_VALUE);
                    if !self.is_same_fault(call, result::SUCCESS, code) {
                        self.diverged(call, "what it delivered", "written".into(), failure.to_string());
                    }
                    return;
                }
            }
        }
        self.tally.delivered += 1;
        self.tally.delivered_bytes += written;
    }

    fn write(&self, delivery: &Delivery, stream: StreamHandle) -> Result<u64, Undelivered> {
        let run = self.run;
        if !delivery.lost.is_empty() {
            return Err(Undelivered::Refused(format!("{REFUSED}: {}", delivery.lost)));
        }
        let len = delivery.at.end - delivery.at.start;
        if len == 0 {
            return Ok(0);
        }
        let held = run
            .placement
            .bound(&delivery.at)
            .ok_or_else(|| Undelivered::Refused("what it delivered goes to memory that is not here".into()))?;
        for (from, hash) in (0..len).step_by(record::PIECE).zip(&delivery.pieces) {
            let expected = (len - from).min(record::PIECE as u64);
            let bytes = run.trace.blob(*hash).filter(|bytes| bytes.len() as u64 == expected);
            let bytes =
                bytes.ok_or_else(|| Undelivered::Refused(format!("{REFUSED}: a part of the file is missing")))?;
            // SAFETY: the trace is mapped until the replay has ended.
            let put = || unsafe { run.driver.write_ordered(held.word() + from, bytes, stream) };
            run.placement.relaxed(put).map_err(Undelivered::Failed)?;
        }
        Ok(len)
    }

    /// Something of this replay's own for what another process had exported.
    pub(super) fn stand_in(&mut self, call: &Call<'t>, function: &'static Function, what: What) {
        let run = self.run;
        let one = run.plan.alone.as_ref().and_then(|alone| alone.stand_ins.get(&call.number)).copied();
        let device = one.map(|one| one.device).or_else(|| run.plan.devices.first().copied()).unwrap_or(0);
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
            (Ok(_), None) => self.refuse(call, function, "what it handed out was not recorded"),
            (Err(failure), _) => self.refuse(call, function, &format!("nothing can stand in for it: {failure}")),
        }
    }
}

/// Why it was not written.
enum Undelivered {
    Refused(String),
    Failed(Failure),
}
