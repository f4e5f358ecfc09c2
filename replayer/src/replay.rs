//! A replay, from the driver's start to its report.

use crate::base::error::Error;
use crate::diagnose::serial_launches::SerialLaunches;
use crate::driver::Driver;
use crate::job::graph_deliveries::GraphDeliveries;
use crate::memory::arguments::LaunchMemory;
use crate::memory::graph_host_memory::GraphHostMemory;
use crate::memory::objects::Objects;
use crate::memory::place::Placement;
use crate::memory::translate::Translation;
use crate::options::{Options, Progress};
use crate::plan::Plan;
use crate::profile::Profiler;
use crate::report::Report;
use crate::run::callbacks::Callbacks;
use crate::run::host_writes::HostWrites;
use crate::run::host_writes::apply;
use crate::run::readbacks::Readbacks;
use crate::run::repeat::gate::RepeatGate;
use crate::run::repeat::repeatable;
use crate::run::repeat::timing::{self, RepeatTimes};
use crate::run::side_stream::SideStream;
use crate::run::state::Run;
use crate::run::texture_ids::ReservedIds;
use crate::run::watchdog::{PATIENCE, watched};
use crate::run::{dump, finish, lanes, quiesce};
use crate::session::Session;
use crate::tally::Tally;
use parking_lot::Mutex;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::Trace;
use trace::model::outstanding::{Work, left_at};

/// Replays a trace as planned, and compares. A divergence is no error: the report has it.
pub fn replay(trace: &Trace, plan: &Plan, options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    let started = Instant::now();
    if options.place
        && !options.translate
        && let Ok(Some(mapping)) = plan.collides_with_own_mappings()
    {
        return Err(Error::Collision { what: mapping });
    }
    if let Some(about) = &options.tools.repeat {
        repeatable::check(trace, plan, &about.range).map_err(|why| Error::Repeat { why })?;
    }
    let (driver, profiler) =
        watch(options.limit, |limit| progress.does_not_begin(limit), || start_driver(options, progress))?;
    has_devices(&driver, plan, &options.devices)?;
    let recorded = trace.devices.iter().map(|device| device.ordinal).chain(plan.devices.used.iter().copied());
    let here = |device| options.devices.get(&device).copied().unwrap_or(device);
    let objects = Objects::new(recorded.map(|device| (device, here(device))).collect());
    let translation = Translation::default();
    let (fill, is_shared) = (options.tools.fill, options.company.is_some());
    let prepare = || Placement::prepare(&driver, &objects, &translation, plan, options.place, fill, is_shared);
    let placement = watch(options.limit, |limit| progress.does_not_begin(limit), prepare)?;
    if let Some(what) = placement.refused().filter(|_| options.place) {
        if !options.translate {
            placement.release();
            return Err(Error::Collision { what });
        }
        progress.warn(&format!("some recorded addresses are already in use: {what}"));
    }
    placement.shortages.iter().for_each(|shortage| progress.warn(shortage));
    let graph_memory = GraphHostMemory::prepare(&plan.graph_nodes.host_memory, |range| placement.host(range).is_some());
    let session = Session {
        trace,
        plan,
        driver: &driver,
        objects: &objects,
        translation: &translation,
        placement,
        contexts: Mutex::default(),
        linked: Mutex::default(),
        arguments: LaunchMemory::default(),
        resources: Mutex::default(),
        shared: Mutex::default(),
        exported: Mutex::default(),
        graph_memory,
        graph_deliveries: GraphDeliveries::default(),
        refused: Mutex::default(),
        company: options.company.clone(),
        verify: options.verify,
        tolerance: options.tools.tolerance,
    };
    let mut run = ManuallyDrop::new(begin(session, profiler, options));
    let ended = work(&mut run, options, progress).inspect_err(|_| {
        // Work may be under way that uses what the run holds: it stays, and goes with the process.
        run.callbacks.close(&mut Tally::default());
    })?;
    let elapsed = started.elapsed();
    let measured = run.profiler.take().map(|profiler| profiler.finish(&run));
    let report = Report::new(&mut run, ended.tally, elapsed);
    if ended.is_at_rest {
        drop(ManuallyDrop::into_inner(run));
    }
    Ok(Report { measured, repeated: ended.repeated, under_way: ended.under_way, ..report })
}

/// Has `tell` called if work takes longer than this limit.
fn watch<T>(limit: Option<Duration>, tell: impl Fn(Duration) + Sync, work: impl FnOnce() -> T) -> T {
    match limit {
        Some(limit) => watched(limit, || tell(limit), work),
        None => work(),
    }
}

/// The driver, and what takes the device's times, if that is asked for.
fn start_driver<'t>(options: &Options, progress: &dyn Progress) -> Result<(Arc<Driver>, Option<Profiler<'t>>), Error> {
    let driver = Arc::new(Driver::load(&options.driver)?);
    let profiler = profiler(options, progress)?;
    driver.init().map_err(|failure| Error::Init { failure: failure.to_string() })?;
    Ok((driver, profiler))
}

/// To be begun before the driver is. Says why it is not CUPTI.
fn profiler<'t>(options: &Options, progress: &dyn Progress) -> Result<Option<Profiler<'t>>, Error> {
    let profiler = options.tools.measure.as_ref().map(Profiler::start);
    if let Some(why) = profiler.as_ref().map(Profiler::why).filter(|why| !why.is_empty()) {
        if options.tools.measure.as_ref().is_some_and(|measure| measure.only_cupti) {
            return Err(Error::Cupti { why: why.to_owned() });
        }
        progress.warn(&format!("device times are measured by events: {why}"));
    }
    Ok(profiler)
}

/// Nothing is under way yet.
fn begin<'t>(session: Session<'t>, profiler: Option<Profiler<'t>>, options: &Options) -> Run<'t> {
    let (trace, plan) = (session.trace, session.plan);
    let writes = HostWrites::from_trace(trace);
    let end = options.tools.end.unwrap_or(u64::MAX);
    Run {
        session,
        readbacks: Readbacks::default(),
        retained: Mutex::default(),
        reserved_ids: ReservedIds::default(),
        graph_reads: Mutex::default(),
        callbacks: Callbacks::new(trace, plan, end),
        side_stream: SideStream::new(writes.has_seen()),
        host_writes: writes,
        before_launches: Mutex::default(),
        end,
        profiler,
        marked: options.tools.marked.clone(),
        repeats: options.tools.repeat.clone().map(|about| {
            let calls = plan.order.lanes.iter().flat_map(|lane| lane.steps.iter().map(|step| step.call));
            RepeatGate::new(calls, about)
        }),
        watch: (options.tools.sync_launches || options.tools.trail.is_some()).then(|| {
            // What was under way when a launch failed did not hang.
            let left = plan.fault.is_none().then(|| left_at(trace, end));
            SerialLaunches::new(options.tools.trail, left.as_ref().map(|left| (left, quiesce::patience(left))))
        }),
    }
}

/// How a replay came to its end.
struct RunEnd {
    tally: Tally,
    repeated: Option<RepeatTimes>,
    under_way: Vec<Work>,
    is_at_rest: bool,
}

/// All calls, and what comes after them.
fn work(run: &mut Run, options: &Options, progress: &dyn Progress) -> Result<RunEnd, Error> {
    let mut tally = lanes(run, options.limit, progress)?;
    let repeated = match run.repeats.take() {
        None => None,
        Some(repeats) => {
            let repeated = timing::run(run, repeats, options.limit, progress);
            Some(repeated.map_err(|why| Error::Repeat { why })?)
        }
    };
    let rest = || watched(PATIENCE, || progress.stalled(PATIENCE, &[]), || quiesce::all(run, run.end));
    let rests = watch(options.limit, |limit| progress.gives_up(limit, &[]), rest);
    if !run.is_stopped() {
        if run.end < run.trace.len() as u64 || !options.tools.dumps.is_empty() {
            rests
                .under_way
                .iter()
                .for_each(|work| progress.warn(&format!("at the stop, {}", quiesce::describe(run, work))));
        }
        dump::dump(run, &options.tools.dumps, |what| progress.warn(what))
            .map_err(|(path, why)| Error::Dump { path, why })?;
    }
    apply::at_the_end(run, &mut tally);
    let is_at_rest = finish::finish(run, &rests, &mut tally);
    run.callbacks.close(&mut tally);
    run.host_writes.close(&mut tally);
    Ok(RunEnd { tally, repeated, under_way: rests.under_way, is_at_rest })
}

/// Whether there are the devices that stand in for recorded ones: those of the same numbers, if no others.
fn has_devices(driver: &Driver, plan: &Plan, devices: &std::collections::HashMap<i32, i32>) -> Result<(), Error> {
    let used = plan.devices.used.iter().chain(plan.devices.primaries.values());
    let recorded = used.map(|device| devices.get(device).unwrap_or(device));
    let Some(here) = devices.values().chain(recorded).copied().max() else { return Ok(()) };
    let count = driver.device_count().map_err(|failure| Error::Init { failure: failure.to_string() })?;
    if here < count { Ok(()) } else { Err(Error::NoDevice { here, count }) }
}
