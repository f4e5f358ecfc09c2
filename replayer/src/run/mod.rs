//! The run: one worker a recorded thread, each call when what preceded it has returned.

mod arrivals;
pub mod aside;
pub mod callbacks;
pub mod edges;
pub mod finish;
mod lifetimes;
pub mod marks;
pub mod numbers;
pub mod readers;
mod ready;
pub mod repeat;
pub mod rest;
pub mod restore;
pub mod results;
pub mod sinks;
pub mod stall;
mod work;
mod worker;
pub mod world;
pub mod written;

use crate::diagnose::launches::Watch;
use crate::driver::Driver;
use crate::driver::parameters::Parameters;
use crate::error::Error;
use crate::memory::objects::Objects;
use crate::memory::of_graphs::OfGraphs;
use crate::memory::place::Placement;
use crate::memory::translate::Translation;
use crate::options::{Options, Progress};
use crate::plan::Plan;
use crate::plan::order::Gate;
use crate::profile::Profiler;
use crate::report::Report;
use crate::run::aside::Aside;
use crate::run::callbacks::Callbacks;
use crate::run::numbers::Spares;
use crate::run::repeat::{Repeated, Repeats};
use crate::run::sinks::Sinks;
use crate::run::stall::{EndAtLast, PATIENCE, Stall, watched};
use crate::run::worker::Worker;
use crate::run::world::World;
use crate::run::written::Writes;
use crate::session::device_memory;
use crate::tally::Tally;
use parking_lot::Mutex;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Instant;
use trace::Trace;
use trace::model::outstanding::{Work, left_at};

pub fn replay(trace: &Trace, plan: &Plan, options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    let started = Instant::now();
    if options.place
        && !options.translate
        && let Ok(Some(mapping)) = plan.collides_with_own_mappings()
    {
        return Err(Error::Collision { what: mapping });
    }
    if let Some(about) = &options.tools.repeat {
        repeat::check(trace, plan, &about.range).map_err(|why| Error::Repeat { why })?;
    }
    let driver = Arc::new(Driver::load(&options.driver)?);
    let profiler = options.tools.measure.as_ref().map(Profiler::start);
    if let Some(why) = profiler.as_ref().map(Profiler::why).filter(|why| !why.is_empty()) {
        if options.tools.measure.as_ref().is_some_and(|measure| measure.only_cupti) {
            return Err(Error::Cupti { why: why.to_owned() });
        }
        progress.warn(&format!("times are taken from events: {why}"));
    }
    driver.init().map_err(|failure| Error::Init { failure: failure.to_string() })?;
    has_devices(&driver, &options.devices)?;
    let objects = Objects::new(options.devices.clone());
    let translation = Translation::default();
    let placement = Placement::prepare(&driver, &objects, &translation, plan, options.place, options.tools.fill)?;
    if let Some(what) = placement.refused().filter(|_| options.place) {
        if !options.translate {
            placement.release();
            return Err(Error::Collision { what });
        }
        progress.warn(&format!("recorded memory cannot all go where it was: {what}"));
    }
    placement.shortages.iter().for_each(|shortage| progress.warn(shortage));
    let graph_memory = OfGraphs::prepare(&plan.of_nodes, |range| placement.host(range).is_some());
    let writes = Writes::of(trace);
    let mut world = ManuallyDrop::new(World {
        trace,
        plan,
        driver: &driver,
        objects: &objects,
        translation: &translation,
        placement,
        sinks: Sinks::default(),
        contexts: Mutex::default(),
        retained: Mutex::default(),
        linked: Mutex::default(),
        parameters: Parameters::default(),
        resources: Mutex::default(),
        shared: Mutex::default(),
        spares: Spares::default(),
        graph_memory,
        graph_reads: Mutex::default(),
        callbacks: Callbacks::of(trace),
        aside: Aside::new(writes.has_seen()),
        writes,
        before_launches: Mutex::default(),
        verify: options.verify,
        tolerance: options.tools.tolerance,
        end: options.tools.end.unwrap_or(u64::MAX),
        profiler,
        marked: options.tools.marked.clone(),
        repeats: options.tools.repeat.clone().map(|about| {
            let calls = plan.order.lanes.iter().flat_map(|lane| lane.steps.iter().map(|step| step.call));
            Repeats::new(calls, about)
        }),
        watch: (options.tools.sync_launches || options.tools.trail.is_some()).then(|| {
            // What was under way when a launch failed did not hang.
            let left = plan.fault.is_none().then(|| left_at(trace, options.tools.end.unwrap_or(u64::MAX)));
            Watch::new(options.tools.trail, left.as_ref())
        }),
    });
    let ended = work(&mut world, options, progress).inspect_err(|_| {
        // Work may be under way that uses what the world holds: it stays, and goes with the process.
        world.callbacks.close(&mut Tally::default());
    })?;
    let elapsed = started.elapsed();
    let measured = world.profiler.take().map(|profiler| profiler.finish(&world));
    let report = Report::new(&mut world, ended.tally, elapsed);
    if ended.is_at_rest {
        drop(ManuallyDrop::into_inner(world));
    }
    Ok(Report { measured, repeated: ended.repeated, under_way: ended.under_way, ..report })
}

/// How a replay came to its end.
struct Ended {
    tally: Tally,
    repeated: Option<Repeated>,
    under_way: Vec<Work>,
    is_at_rest: bool,
}

/// All calls, and what comes after them.
fn work(world: &mut World, options: &Options, progress: &dyn Progress) -> Result<Ended, Error> {
    let mut tally = run(world, progress)?;
    let repeated = match world.repeats.take() {
        None => None,
        Some(repeats) => Some(repeat::run(world, repeats).map_err(|why| Error::Repeat { why })?),
    };
    let rests = watched(|| progress.stalled(PATIENCE, &[]), || rest::all(world, world.end));
    if !world.is_stopped() {
        if world.end < world.trace.len() as u64 || !options.tools.dumps.is_empty() {
            rests.under_way.iter().for_each(|work| progress.warn(&format!("at the stop, {}", rest::told(world, work))));
        }
        device_memory::dump(world, &options.tools.dumps, |what| progress.warn(what))
            .map_err(|(path, why)| Error::Dump { path, why })?;
    }
    written::at_the_end(world, &mut tally);
    let is_at_rest = finish::finish(world, &rests, &mut tally);
    world.callbacks.close(&mut tally);
    world.writes.close(&mut tally);
    Ok(Ended { tally, repeated, under_way: rests.under_way, is_at_rest })
}

/// Whether there are the devices that stand in for recorded ones.
fn has_devices(driver: &Driver, devices: &std::collections::HashMap<i32, i32>) -> Result<(), Error> {
    let Some(here) = devices.values().copied().max() else { return Ok(()) };
    let count = driver.device_count().map_err(|failure| Error::Init { failure: failure.to_string() })?;
    if here < count { Ok(()) } else { Err(Error::NoDevice { here, count }) }
}

/// Runs all lanes, each begun when its first call may start.
fn run(world: &World, progress: &dyn Progress) -> Result<Tally, Error> {
    let order = &world.plan.order;
    let gate = Gate::new(order.calls);
    let total = Mutex::new(Tally::default());
    let stall = Stall::new(order.lanes.len());
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| stall.watch(|_| PATIENCE, |calls| progress.stalled(PATIENCE, &named(world.trace, calls))));
        let (stall, patience) = (&stall, |calls: &[u64]| world.writes.patience(world.trace, calls));
        if world.writes.any() {
            scope.spawn(move || stall.watch(patience, |calls| world.writes.let_go(world, calls)));
        }
        let _end = EndAtLast(stall);
        let mut workers = Vec::new();
        let mut refused = None;
        for (index, lane) in order.lanes.iter().enumerate() {
            if lane.steps[0].call >= world.end {
                continue;
            }
            if gate.wait(lane.steps[0].after).is_err() {
                break;
            }
            let (gate, total) = (&gate, &total);
            let work = move || {
                let _abort = AbortOnPanic(gate);
                let mut worker = Worker { world, thread: lane.thread, tally: Tally::default() };
                worker.run(lane, gate, stall, index, progress);
                total.lock().add(worker.tally);
            };
            match std::thread::Builder::new().spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                Err(source) => {
                    refused = Some(Error::Thread { thread: lane.thread, source });
                    gate.abort();
                    break;
                }
            }
        }
        let ends: Vec<bool> = workers.into_iter().map(|worker| worker.join().is_err()).collect();
        if ends.contains(&true) { Some(Error::Worker) } else { refused }
    });
    match ended {
        Some(error) => Err(error),
        None => Ok(total.into_inner()),
    }
}

fn named(trace: &Trace, calls: &[u64]) -> Vec<(u64, String)> {
    let name = |call: trace::Call| match call.named_kernel() {
        Some(kernel) if !kernel.name.is_empty() => format!("{} of {}", call.name(), kernel.name),
        _ => call.name().to_owned(),
    };
    calls.iter().filter_map(|call| Some((*call, name(trace.call(*call)?)))).collect()
}

struct AbortOnPanic<'g>(&'g Gate);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}
