//! Events around each submission as a source of times, where CUPTI is not available.
//!
//! The first event happens when the earlier work on the stream is complete, and the second when this work is.
//! The time between them is the work's, plus, on an idle stream, the launch's way to the device. Nobody waits
//! for an event: pairs are read when the program has waited for something, and when there are many.
//!
//! Events give differences, as floats: each is measured from a near base event with a known time on the
//! host's clock.

use crate::driver::stream::{Queue, context_of, stream_of, with_context};
use crate::driver::{Driver, Failure, id, result};
use crate::profile::kernels::Kernels;
use crate::profile::work_description::{StartedCall, TimedWork, describe};
use crate::profile::{Collector, now};
use crate::session::Session;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use trace::file::record::{Timed, timed};
use trace::model::stream::StreamHandle;

/// Pairs under way before they are looked through, and how many more before the next time.
const MANY: usize = 1 << 12;
/// Nanoseconds that a base is good for: differences of events have 24 bits.
const BASE: i64 = 500_000_000;
/// What CUPTI calls the default streams.
const LEGACY: u32 = 7;

#[derive(Default)]
pub(super) struct Events<'t> {
    state: Mutex<State<'t>>,
}

#[derive(Default)]
struct State<'t> {
    contexts: HashMap<u64, Context>,
    /// Contexts so far.
    count: u32,
    pairs: Vec<Pair<'t>>,
    /// How many pairs make it worth looking through them.
    next: usize,
    uncertainty: u64,
    streams: HashMap<(u64, u64, Option<u32>), u32>,
}

struct Context {
    number: u32,
    device: u32,
    /// A stream of our own, where nothing waits.
    stream: StreamHandle,
    spare: Vec<u64>,
    base: Arc<Base>,
}

/// An event, and when it happened (CLOCK_MONOTONIC).
struct Base {
    event: u64,
    at: i64,
}

struct Pair<'t> {
    context: u64,
    events: [u64; 2],
    base: Arc<Base>,
    timed: Timed,
    kernel: Option<&'t str>,
}

const STREAM_FAILED: &str = "its stream accepts no events";
const CAPTURED: &str = "its stream may be captured";
const FAILED: &str = "its events were not read";

impl<'t> Events<'t> {
    /// Makes a call of the trace.
    ///
    /// # Safety
    /// As for [`Driver::call`].
    pub(super) unsafe fn call(
        &self,
        session: &Session<'t>,
        collector: &Collector,
        kernels: &Kernels,
        made: StartedCall<'_, 't>,
    ) -> u32 {
        let StartedCall { call, live, words, .. } = made;
        let driver = session.driver;
        // SAFETY: forwarded from the caller.
        let plain = || unsafe { driver.call(id(live), words) };
        let named = StreamHandle::new(live, stream_of(live, words).unwrap_or(0));
        let Some(TimedWork { timed, kernel, function }) = describe(session, made) else { return plain() };
        let context = context_of(driver, named.handle);
        let queue = Queue::from_handle(context, named, call.thread);
        if session.placement.captures.any() && queue.is_captured(driver) {
            // What is captured is timed when its graph runs.
            if named.is_default() {
                collector.untimed(CAPTURED, 1);
            }
            return plain();
        }
        let record = |event: u64| queue.record(driver, event);
        let Ok((events, base)) = session.placement.relaxed(|| self.events(driver, context)) else {
            collector.untimed(STREAM_FAILED, 1);
            return plain();
        };
        let before = record(events[0]);
        let begin = collector.begins(session.trace, call);
        let result = plain();
        let end = now();
        let after = record(events[1]);
        let mut state = self.state.lock();
        if result != result::SUCCESS || before.is_err() || after.is_err() {
            if let Some(context) = state.contexts.get_mut(&context) {
                context.spare.extend(events);
            }
            drop(state);
            collector.untimed(STREAM_FAILED, u64::from(result == result::SUCCESS));
            return result;
        }
        let (number, device) = state.contexts.get(&context).map_or((0, 0), |known| (known.number, known.device));
        let known = state.streams.len() as u32;
        let number_of_stream = match queue {
            Queue { stream: 0 | 1, thread: None, .. } => LEGACY,
            Queue { stream, thread, .. } => {
                *state.streams.entry((context, stream, thread)).or_insert(LEGACY + 1 + known)
            }
        };
        let mut timed = Timed {
            submitted: begin,
            returned: end,
            thread: call.thread,
            call: call.sequence,
            device,
            context: number,
            stream: number_of_stream,
            source: timed::EVENTS,
            ..timed
        };
        if function != 0 {
            let facts = kernels.facts(driver, function, timed.block.iter().product(), timed.dynamic_shared);
            (timed.registers, timed.static_shared) = (facts.registers, facts.static_shared);
            (timed.local, timed.occupancy) = (facts.local, facts.occupancy);
        }
        state.pairs.push(Pair { context, events, base, timed, kernel });
        let many = state.pairs.len() >= state.next.max(MANY);
        drop(state);
        if many {
            self.reap(session, collector, None);
        }
        result
    }

    /// Two events of a live context, and a base that is not old.
    fn events(&self, driver: &Driver, context: u64) -> Result<([u64; 2], Arc<Base>), Failure> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if !state.contexts.contains_key(&context) {
            let stream = with_context(driver, context, || driver.create_stream())??;
            let (base, apart) = with_context(driver, context, || based(driver, stream, None))??;
            state.uncertainty = state.uncertainty.max(apart);
            state.count += 1;
            let (number, device) = (
                state.count,
                with_context(driver, context, || driver.current_device())?
                    .map_or(timed::UNKNOWN, |device| device as u32),
            );
            state.contexts.insert(context, Context { number, device, stream, spare: Vec::new(), base: Arc::new(base) });
        }
        let known = state.contexts.get_mut(&context).expect("just made");
        if now() - known.base.at > BASE {
            let (base, _) = with_context(driver, context, || based(driver, known.stream, Some(&known.base)))??;
            known.base = Arc::new(base);
        }
        let mut one = || match known.spare.pop() {
            Some(event) => Ok(event),
            None => with_context(driver, context, || driver.create_event(true))?,
        };
        Ok(([one()?, one()?], known.base.clone()))
    }

    /// Reads the pairs that have happened; of a context that ends all, and forgets it.
    pub(super) fn reap(&self, session: &Session, collector: &Collector, ends: Option<u64>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.pairs.is_empty() && ends.is_none() {
            return;
        }
        let driver = session.driver;
        session.placement.relaxed(|| {
            state.pairs.retain_mut(|pair| {
                let is_ending = ends == Some(pair.context);
                let read = with_context(driver, pair.context, || read(driver, pair));
                match read.and_then(|read| read) {
                    Ok(true) => {}
                    Ok(false) if !is_ending => return true,
                    Ok(false) | Err(_) => {
                        collector.untimed(FAILED, 1);
                        return false;
                    }
                }
                collector.record(pair.timed, pair.kernel);
                if let Some(context) = state.contexts.get_mut(&pair.context) {
                    context.spare.extend(pair.events);
                }
                false
            });
        });
        state.next = state.pairs.len() + MANY;
        if let Some(context) = ends {
            // Its events and its stream end with it.
            state.contexts.remove(&context);
        }
    }

    /// By how many nanoseconds times may be off.
    pub(super) fn finish(self, session: &Session, collector: &Collector) -> u64 {
        self.reap(session, collector, None);
        let state = self.state.into_inner();
        collector.untimed(FAILED, state.pairs.len() as u64);
        state.uncertainty
    }
}

/// Whether the pair has happened; its times then.
fn read(driver: &Driver, pair: &mut Pair) -> Result<bool, Failure> {
    if !driver.query_event(pair.events[1])? {
        return Ok(false);
    }
    let start = pair.base.at + elapsed(driver, pair.base.event, pair.events[0])?;
    // When the base happened is known to within the host's wait for it. No work begins before its call.
    pair.timed.start = start.max(pair.timed.submitted);
    pair.timed.end = pair.timed.start + elapsed(driver, pair.events[0], pair.events[1])?.max(0);
    Ok(true)
}

/// Nanoseconds between two events that have happened.
fn elapsed(driver: &Driver, from: u64, to: u64) -> Result<i64, Failure> {
    driver.elapsed(from, to).map(|milliseconds| (f64::from(milliseconds) * 1e6).round() as i64)
}

/// A new event on an idle stream, and its place on the host's clock: told by the one before, or measured, as
/// the best of some.
fn based(driver: &Driver, stream: StreamHandle, before: Option<&Base>) -> Result<(Base, u64), Failure> {
    const TRIES: usize = 16;
    let mut best: Option<(Base, u64)> = None;
    for _ in 0..if before.is_some() { 1 } else { TRIES } {
        let event = driver.create_event(true)?;
        let earlier = now();
        driver.record_event(event, stream)?;
        driver.synchronize_event(event)?;
        let apart = now().abs_diff(earlier);
        let at = match before {
            Some(before) => before.at + elapsed(driver, before.event, event)?,
            None => earlier + (apart / 2) as i64,
        };
        let worse = match &best {
            Some((_, least)) if *least <= apart => Some(event),
            _ => best.replace((Base { event, at }, apart)).map(|(base, _)| base.event),
        };
        if let Some(event) = worse {
            let _ = driver.destroy_event(event);
        }
    }
    Ok(best.expect("tried at least once"))
}
