//! The moments at which launches, copies and fills on some memory were known to be complete: by a wait, or
//! when a callback behind them began.

use crate::base::ranges::Ranges;
use crate::plan::comparability::host_races::{begun, waits};
use crate::plan::comparability::mapped_memory::MappedMemory;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use trace::api::roles::Class;
use trace::model::copy_endpoints;
use trace::model::objects::Objects;
use trace::read::call::Image;
use trace::{Call, Function, Trace};

#[derive(Default)]
pub(crate) struct Completions {
    /// By the time.
    all: Vec<CompletedWork>,
    /// By the call that put a callback on a stream: work put before, of this kind, that was in no order to
    /// it.
    beside: HashMap<u64, HashSet<u64>>,
}

struct CompletedWork {
    /// When that was known.
    time: u64,
    call: u64,
    begin: u64,
    memory: Range<u64>,
}

enum Event<'t> {
    /// A call: when it began or, if it waited, ended.
    Call(Call<'t>),
    /// The callback that this call put on a stream begins.
    Run(u64),
}

impl Completions {
    pub(crate) fn from_trace(trace: &Trace, memory: &Ranges) -> Completions {
        let results = trace.results_of_calls();
        let result = |(time, launch, image): (u64, Call, Image)| CompletedWork {
            time,
            call: launch.number,
            begin: launch.begin,
            memory: image.memory(),
        };
        let mut worked = Completions { all: results.map(result).collect(), ..Completions::default() };
        let of_results: HashSet<u64> = worked.all.iter().map(|done| done.call).collect();
        let (mut shared, objects, mut queued) = (MappedMemory::default(), Objects::default(), HashMap::new());
        for (time, event) in events(trace) {
            match event {
                Event::Call(call) => {
                    let Some(function) = call.function() else { continue };
                    shared.observe(&call, function, &objects);
                    let touched = touched(&call, function, &shared, memory);
                    match function.class {
                        Class::copy => worked.all.extend(done(time, call.number, (call.begin, touched))),
                        _ if !touched.is_empty() => _ = queued.insert(call.number, (call.begin, touched)),
                        _ => {}
                    }
                    let is_meant = |call: &u64| of_results.contains(call) || queued.contains_key(call);
                    let beside: HashSet<u64> = shared.work.concurrent_with(call.number).filter(is_meant).collect();
                    worked.beside.extend((!beside.is_empty()).then_some((call.number, beside)));
                }
                Event::Run(call) => shared.work.called_back(call, false),
            }
            for call in shared.work.take_done() {
                worked.all.extend(queued.remove(&call).into_iter().flat_map(|put| done(time, call, put)));
            }
        }
        worked.all.sort_by_key(|done| done.time);
        worked
    }

    /// Where, by that time, work was known to be done that had been put behind a callback, or beside it.
    /// `put`: when, and by which call if that put it on a stream.
    pub(crate) fn completed_behind(&self, (put, callback): (u64, Option<u64>), until: u64) -> Ranges {
        let beside = callback.and_then(|callback| self.beside.get(&callback));
        let from = self.all.partition_point(|done| done.time <= put);
        let since = self.all[from..].iter().take_while(|done| done.time < until);
        let meant = since.filter(|done| done.begin > put || beside.is_some_and(|beside| beside.contains(&done.call)));
        Ranges::union(meant.map(|done| done.memory.clone()), 1)
    }
}

fn touched(call: &Call, function: &'static Function, shared: &MappedMemory, memory: &Ranges) -> Vec<Range<u64>> {
    let mut touched = match function.class {
        Class::copy | Class::submit if call.succeeded() => copy_endpoints::memory(call, function),
        // One that is given an address in the midst may use any part.
        Class::launch if call.succeeded() => shared.whole_pinned_arguments(call),
        _ => Vec::new(),
    };
    touched.retain(|touched| memory.overlaps(touched));
    touched
}

fn done(time: u64, call: u64, (begin, touched): (u64, Vec<Range<u64>>)) -> impl Iterator<Item = CompletedWork> {
    touched.into_iter().map(move |memory| CompletedWork { time, call, begin, memory })
}

fn events(trace: &Trace) -> Vec<(u64, Event<'_>)> {
    let calls = trace.calls().filter(|call| !call.inner);
    let timed = |call: Call<'_>| if waits(&call) { call.end } else { Some(call.begin) };
    let calls = calls.filter_map(|call| Some((timed(call)?, Event::Call(call))));
    let runs = begun(trace).into_iter().map(|(begin, call)| (begin, Event::Run(call)));
    // A run comes before what ends at the same time.
    let mut events: Vec<(u64, Event)> = runs.chain(calls).collect();
    events.sort_by_key(|(time, _)| *time);
    events
}
