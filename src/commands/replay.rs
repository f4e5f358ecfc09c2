//! `cutrace replay`: makes the calls of a trace again and compares their results.

mod as_json;
mod bar;
mod bisect;
mod child_replays;
mod comparison;
mod culprit;
mod debug_flags;
mod explain;
mod explanation_text;
mod interruption;
mod kernel_output;
mod looping;
mod sandbox;
mod sharing;
mod summary;
mod text;
mod timing;
mod together;

use crate::arguments::input::File;
use crate::arguments::rank_filter::Among;
use crate::driver::{self, Choice, Found};
use crate::files::output::Output;
use crate::files::references;
use crate::process::layout;
use crate::terminal::exit;
use crate::terminal::exit::{DIVERGED, DONE, FAILED, NO_DRIVER, UNREADABLE, UNVERIFIED, USAGE, failure, say};
use crate::terminal::standard_output::{Results, print_json};
use analysis::calls::losses;
use analysis::text::figures::size;
use anyhow::Result;
use as_json::{Planned, ReplaySummary};
use bar::Bar;
use debug_flags::Finding;
use explain::{Explanation, Question};
use interruption::Interruption;
use looping::Looping;
use replayer::{Missing, Options, Outcome, Peers, Plan, Report, Tools, Verdict, plan_single_rank, plan_with_peers};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use summary::Told;
use timing::{Source, Timed, Timing};
use together::{Link, ReplayRequest};
use trace::Trace;

/// Replay the calls of a trace and compare results, outputs and copied data
///
/// Needs neither the program nor its files. Memory is placed at its recorded addresses if possible, recorded
/// CUDA_* variables that change results are set unless the environment sets them, and every result, output
/// and copy to the host is compared with the recording. A replay of more than a second shows a progress bar
/// if stderr is a terminal.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace replay                         the latest trace here, on this machine's driver
  cutrace replay app.bin --dry-run       the plan, without a driver
  cutrace replay app.bin --device 0=1    replay work of device 0 on device 1
  cutrace replay run/                    a job: all its processes together
  torchrun --no-python --nproc-per-node 2 cutrace replay run/ --rank '%q{RANK}'
                                         the same, with a launcher that starts each rank
  cutrace replay run/ --rank 3 --alone   one rank, with recorded results of its collectives
  cutrace replay --sync-launches         find the launch that fails
  cutrace replay --bisect                find the nondeterministic kernel
  cutrace replay --fill 0xa5             find reads of uninitialised memory
  cutrace replay --verify 1e-4,1e-6,f32  compare as numbers (trace of record --data=all)
  cutrace replay --loop 100 --nvtx step  measure one step, repeated 100 times
  cutrace replay --profile -o timed.bin  add device times, for cutrace report and export
  cutrace replay --untrusted app.bin     replay in a sandbox
  cutrace replay --weights model.gguf    with data stored by reference
  cutrace replay --break vector_add#2 --dump-memory mem#3 before.bin

Exit status:
  0 verified (or --no-verify, or stopped by an option)
  1 not replayable, a launch failed as recorded, an output exists or cannot be
    written, or referenced data is missing (--weights)
  2 usage
  3 the trace cannot be read, or a file of --weights has changed
  4 diverged
  5 no usable driver
  6 unverified: no device result could be compared, or kernels printed lines
    missing from the recorded output
  128 + signal if interrupted")]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    among: Among,
    /// Replay one process of a job without the others
    ///
    /// In a directory, choose the process with --rank. Recorded results replace NCCL collectives (recorded by
    /// record --collectives), and recorded contents fill memory of other processes (record --shared-memory).
    #[arg(long)]
    alone: bool,
    /// Do not compare anything
    #[arg(long, hide_short_help = true)]
    no_verify: bool,
    /// Do not restore recorded addresses: translate all recognised pointers instead
    #[arg(long, hide_short_help = true)]
    no_placement: bool,
    /// A driver library, or "sim" for the simulated driver
    ///
    /// By default the machine's driver is used, or the simulated one for a trace recorded on it.
    #[arg(long, value_name = "PATH|sim")]
    driver: Option<Choice>,
    /// Map devices: 0=1,1=0 (recorded=here), or one number for all
    #[arg(long, value_name = "MAP")]
    device: Option<Devices>,
    /// Sandbox an untrusted trace: no file writes, no network, no new processes
    ///
    /// A trace is a program: its kernels run, and its code goes through the driver's compiler, with your
    /// rights. With this option the process drops, before it loads the driver, all privileges and all access
    /// except to the GPU's devices and to reading files (Landlock and seccomp). The GPU itself stays fully
    /// accessible, and where kernels can access all memory of the process (HMM, ATS), so can the kernels of
    /// the trace. The driver's cache of compiled code and MPS are not used. A divergence is not explained, as
    /// that needs another replay. The replay is stopped if it uses more than half of the machine's memory (or
    /// the limit of ulimit -m), starts 1,000 threads more than the trace has, or if no call returns for 600 s
    /// (--timeout).
    #[arg(long, hide_short_help = true, conflicts_with_all = ["profile", "dump_memory", "bisect", "dry_run"])]
    untrusted: bool,
    /// Read data stored by reference from this file, or from files below this directory; may be repeated
    ///
    /// Only the named files are read, and data that changed since the recording is refused.
    #[arg(long, hide_short_help = true, value_name = "FILE|DIR")]
    weights: Vec<PathBuf>,
    /// Stop if no call returns for SECONDS
    ///
    /// For a job: if no process makes progress, or if a rank that a launcher starts (--rank '%q{VAR}') does
    /// not start [default: none; 600 with --untrusted or when waiting for another process; for a job 600, or
    /// 60 after a divergence or if a trace is missing; 60 for a rank]
    #[arg(long, hide_short_help = true, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Print the plan and the verdict only; needs no driver
    #[arg(long)]
    dry_run: bool,
    /// Print details of the replay, too
    ///
    /// Always on if the replay diverges.
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    finding: Finding,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    looping: Looping,
    /// Let --output and --dump-memory replace existing files
    #[arg(long, hide_short_help = true)]
    force: bool,
}

/// `--device`
#[derive(Debug, Clone)]
enum Devices {
    All(i32),
    Each(HashMap<i32, i32>),
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Devices, String> {
        let number = |text: &str| match text.trim().parse() {
            Ok(number @ 0..) => Ok(number),
            _ => Err(format!("{text:?} is not a device number; expected 0=1,1=0 or one number")),
        };
        if !text.contains('=') {
            return number(text).map(Devices::All);
        }
        let pair = |pair: &str| match pair.split_once('=') {
            Some((recorded, here)) => Ok((number(recorded)?, number(here)?)),
            None => Err(format!("{pair:?} is not RECORDED=HERE; expected 0=1,1=0 or one number")),
        };
        text.split(',').map(pair).collect::<Result<_, String>>().map(Devices::Each)
    }
}

/// More than none.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|seconds| !seconds.is_zero()).ok_or_else(|| "expected a number of seconds, more than 0: 30".into())
}

impl Arguments {
    /// Whether no driver runs in this process.
    pub(crate) fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// So long may nothing come to an end. A stranger's trace is not let compute for ever.
    fn timeout(&self) -> Option<Duration> {
        const OF_A_STRANGER: Duration = Duration::from_secs(600);
        self.timeout.or(self.untrusted.then_some(OF_A_STRANGER))
    }

    fn job<'a>(&'a self, directory: &'a Path) -> Result<ReplayRequest<'a>> {
        if let Some(option) = self.of_one_process() {
            let why = "applies to one process: pass its trace, not a directory";
            return Err(failure(USAGE, format_args!("{option} {why}")));
        }
        let (processes, options) = (&self.among, self.options_of_each());
        Ok(ReplayRequest { directory, processes, options, timeout: self.timeout(), json: self.json })
    }

    /// Options for each replay of a job.
    fn options_of_each(&self) -> Vec<OsString> {
        let mut asked: Vec<OsString> = Vec::new();
        let flags =
            [(self.no_verify, "--no-verify"), (self.no_placement, "--no-placement"), (self.dry_run, "--dry-run")];
        asked.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.into()));
        let mut with = |option: &str, value: OsString| asked.extend([option.into(), value]);
        self.driver.iter().for_each(|driver| with("--driver", driver.as_argument()));
        self.device.iter().for_each(|devices| with("--device", devices.to_string().into()));
        self.weights.iter().for_each(|weights| with("--weights", weights.into()));
        asked.extend(self.finding.of_each().into_iter().map(OsString::from));
        asked
    }

    /// An option that concerns one process alone.
    fn of_one_process(&self) -> Option<&'static str> {
        let asked =
            [(self.untrusted, "--untrusted"), (self.timing.profile, "--profile"), (self.looping.is_asked(), "--loop")];
        asked
            .into_iter()
            .find(|(is_set, _)| *is_set)
            .map(|(_, option)| option)
            .or_else(|| self.finding.of_one_process())
    }

    /// What contradicts itself or the trace.
    fn check(&self, trace: &Trace, plan: &Plan) -> Result<()> {
        let refuse = |why: String| Err(failure(USAGE, why));
        if self.timing.times != Source::Auto && !self.timing.profile && !self.looping.is_asked() {
            return refuse("--times applies to --profile and --loop only".into());
        }
        if self.force && !self.timing.profile && !self.finding.writes() {
            return refuse("--force applies to --profile and --dump-memory only".into());
        }
        let Some(Devices::Each(map)) = &self.device else { return Ok(()) };
        let mut known: Vec<i32> =
            trace.devices.iter().map(|d| d.ordinal).chain(plan.devices.used.iter().copied()).collect();
        known.sort_unstable();
        known.dedup();
        match map.keys().filter(|device| !known.contains(device)).min() {
            Some(unknown) if known.is_empty() => refuse(format!("--device {unknown}=...: the trace uses no device")),
            Some(unknown) => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                refuse(format!("--device {unknown}=...: the trace has no such device; it has {}", known.join(", ")))
            }
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Devices::All(here) => write!(f, "{here}"),
            Devices::Each(map) => {
                let pairs: Vec<String> = map.iter().map(|(recorded, here)| format!("{recorded}={here}")).collect();
                f.write_str(&pairs.join(","))
            }
        }
    }
}

impl Devices {
    fn map(&self, trace: &Trace, plan: &Plan) -> HashMap<i32, i32> {
        match self {
            Devices::Each(map) => map.clone(),
            Devices::All(here) => {
                let recorded = trace.devices.iter().map(|d| d.ordinal).chain(plan.devices.used.iter().copied());
                recorded.map(|device| (device, *here)).collect()
            }
        }
    }
}

pub(crate) fn run(mut arguments: Arguments) -> Result<u8> {
    arguments.file.find()?;
    if arguments.alone {
        arguments.file.choose(&std::mem::take(&mut arguments.among))?;
    }
    if let Some(directory) = arguments.file.job(arguments.among.is_all())? {
        return together::run(&arguments.job(directory)?);
    }
    arguments.among.refuse()?;
    let company = Link::inherited()?.map(Arc::new);
    if arguments.untrusted {
        sandbox::close_inherited()?;
    }
    let interruption = Interruption::default();
    // A thread that is there before the sandbox is not in it.
    if !arguments.untrusted {
        interruption.attend();
    }
    let trace = opened(&arguments)?;
    let plan = planned(&arguments, &trace, company.as_deref())?;
    arguments.check(&trace, &plan)?;
    let tools = arguments.finding.tools(&trace)?;
    let scope = arguments.looping.range(&trace)?;
    if arguments.dry_run || plan.judgement.verdict == Verdict::No {
        show_plan(&arguments, &trace, &plan, company.as_deref())?;
        // What was lost before the trace was closed is among the verdict's reasons.
        let damage = if trace.damage.is_empty() { DONE } else { exit::damage(&trace, 0) };
        return Ok(match (damage, plan.judgement.verdict) {
            (DONE, Verdict::No) => FAILED,
            (damage, _) => damage,
        });
    }
    if plan.missing.is_none() {
        // A blob that no call needs.
        refuse_damage(losses::damage_that_loses(&trace))?;
    }
    let prepared = prepare(&arguments, &trace, &plan, tools, scope.as_ref(), &interruption)?;
    let Prepared { found, mut options, timed, dumped, is_cut } = prepared;
    options.company = company.clone().map(|link| link as Arc<dyn Peers>);
    let bar = Bar::new(&interruption, &trace.path, plan.calls());
    let aside = kernel_output::Aside::begin();
    let report = replayer::replay(&trace, &plan, &options, &bar);
    let printed = aside.finish();
    bar.bar.finish_and_clear();
    if let Err(replayer::Error::Collision { what }) = &report {
        // Not to be left behind.
        drop((timed, dumped));
        return Err(layout::start_anew(what));
    }
    let mut report = report.map_err(|error| failed(error, &found, &arguments, &trace))?;
    let why_not = match report.outcome {
        Outcome::Replayed => Some("comparison is off"),
        _ => report.repeated.as_ref().map(|_| "calls were repeated"),
    };
    let printed = kernel_output::Compared::of(&trace, printed, why_not);
    printed.iter().for_each(|printed| printed.judge(&mut report));
    let timed = match (timed, &report.measured) {
        (Some(timed), Some(measured)) => Some(timed.finish(&trace, &options, measured)?),
        _ => None,
    };
    if report.culprit.is_none() {
        dumped.into_iter().try_for_each(Output::finish)?;
    }
    interruption.removes_none();
    let explained = explained(&arguments, &trace, &plan, &options, &report);
    let is_bisection = arguments.finding.bisect;
    let (trace, plan, options, report) = (&trace, &plan, &options, &report);
    let told = Told { trace, plan, options, report, printed, timed, scope, explained, is_bisection };
    match &company {
        _ if arguments.finding.again => child_replays::write_evidence(&mut Results::begin(), report)?,
        Some(link) => link.finish(&told.summary())?,
        None if arguments.json => print_json(&told.summary())?,
        None => told.text(&mut Results::begin(), arguments.verbose)?,
    }
    Results::begin().flush()?;
    kernel_output::silence();
    let missing = plan.missing.as_ref().filter(|_| is_cut);
    if let Some(missing) = missing {
        say_cut(trace, missing);
    }
    Ok(match report.outcome {
        Outcome::Diverged => DIVERGED,
        _ if missing.is_some() => UNREADABLE,
        Outcome::Unverified => UNVERIFIED,
        Outcome::Faulted => FAILED,
        _ => DONE,
    })
}

/// Shows what would be done.
fn show_plan(arguments: &Arguments, trace: &Trace, plan: &Plan, link: Option<&Link>) -> Result<()> {
    let planned = Planned::new(trace, plan, !arguments.no_placement);
    match link {
        Some(link) => link.finish(&ReplaySummary::Planned(planned)),
        None if arguments.json => print_json(&planned),
        None => text::plan(trace, plan, &planned),
    }
}

/// The trace, of which a replay needs all.
fn opened(arguments: &Arguments) -> Result<Trace> {
    let mut trace = arguments.file.open()?;
    let damage = losses::damage_that_loses(&trace);
    // Up to the first call that needs a blob that is damaged, all can be made again.
    trace.check_blobs();
    if !arguments.dry_run {
        references::follow(&mut trace, &arguments.weights)?;
    }
    if !arguments.dry_run {
        refuse_damage(damage)?;
    }
    Ok(trace)
}

fn refuse_damage(damage: Option<String>) -> Result<()> {
    let Some(damage) = damage else { return Ok(()) };
    let hint = "a replay needs a complete trace (cutrace repair -o saves what can be read)";
    Err(failure(UNREADABLE, format_args!("{damage}; {hint}")))
}

fn planned(arguments: &Arguments, trace: &Trace, company: Option<&Link>) -> Result<Plan> {
    Ok(match company {
        // As where its trace is named: what imported memory held is there.
        Some(link) if link.is_by_itself() && !trace.held.is_empty() => replayer::plan(trace),
        Some(link) => plan_with_peers(trace, link.imports(), link.lacks()),
        None if arguments.alone => {
            let refused = |why| failure(FAILED, format_args!("{}: --alone: {why}", trace.path.display()));
            plan_single_rank(trace).map_err(refused)?
        }
        None => {
            let plan = replayer::plan(trace);
            if plan.lacks_ranks() && !trace.delivered.is_empty() {
                say("collectives are skipped because other ranks are missing; --alone uses their recorded results");
            }
            plan
        }
    })
}

/// Why the replay ended before a call.
fn say_cut(trace: &Trace, missing: &Missing) {
    let (call, function, size) = (missing.call, missing.function, size(missing.len));
    let place = losses::damage_of(trace).unwrap_or_else(|| trace.path.display().to_string());
    let what = match missing.blob {
        Some(blob) => format!("{size} of blob {blob}, which is damaged or not in the file"),
        None => format!("{size} that were not recorded"),
    };
    exit::say(format_args!("{place}: stopped: call {call} {function} needs {what}"));
}

/// What is there before the first call is made.
struct Prepared {
    found: Found,
    options: Options,
    timed: Option<Timed>,
    /// Files for what is dumped of memory.
    dumped: Vec<Output>,
    /// The replay ends before a call whose data is damaged or not there.
    is_cut: bool,
}

/// Begins the files, gives memory and the process the form they need, and looks for the driver.
fn prepare(
    arguments: &Arguments,
    trace: &Trace,
    plan: &Plan,
    mut tools: Tools,
    scope: Option<&Range<u64>>,
    interruption: &Interruption,
) -> Result<Prepared> {
    let timed_to = arguments.timing.profile.then(|| arguments.timing.path());
    let (dumps, dumped) = arguments.finding.dumps(trace, tools.end, arguments.force, timed_to)?;
    dumped.iter().for_each(|output| interruption.removes(output.partial()));
    tools.dumps = dumps;
    tools.end = scope.map(|scope| scope.end).or(tools.end);
    let missing = plan.missing.as_ref().filter(|missing| tools.end.is_none_or(|end| missing.call < end));
    tools.end = missing.map(|missing| missing.call).or(tools.end);
    if !arguments.no_placement {
        layout::make_room(plan)?;
    }
    layout::set_environment(plan);
    let choice = &arguments.driver.clone().unwrap_or_else(|| driver::of_recording(trace));
    // Ours may have to be written first, where to find the machine's is to load it.
    let simulated = matches!(choice, Choice::Sim).then(|| driver::find(choice));
    if arguments.untrusted {
        sandbox::enter(trace.threads.len())?;
        interruption.attend();
    }
    let found = simulated.unwrap_or_else(|| driver::find(choice));
    let found = found.map_err(|tried| tried.as_failure("no usable driver"))?;
    let mut timed = None;
    if arguments.timing.profile {
        let cupti = arguments.timing.source(choice, &found.path)?;
        let (begun, measure) = arguments.timing.begin(trace, cupti, arguments.force)?;
        interruption.removes(begun.partial());
        (timed, tools.measure) = (Some(begun), Some(measure));
    }
    if let Some(scope) = scope {
        let cupti = arguments.timing.source(choice, &found.path)?;
        tools.repeat = Some(arguments.looping.repeat(scope.clone(), cupti));
    }
    let options = Options {
        driver: found.path.clone(),
        verify: !arguments.no_verify,
        devices: arguments.device.as_ref().map_or_else(HashMap::new, |devices| devices.map(trace, plan)),
        place: !arguments.no_placement,
        // In the sandbox it cannot start anew.
        translate: layout::is_last() || arguments.untrusted,
        company: None,
        limit: arguments.timeout(),
        tools,
    };
    Ok(Prepared { found, options, timed, dumped, is_cut: missing.is_some() })
}

fn failed(error: replayer::Error, found: &Found, arguments: &Arguments, trace: &Trace) -> anyhow::Error {
    match error {
        replayer::Error::Repeat { .. } => match arguments.looping.other_range(trace) {
            Some(hint) => failure(FAILED, format_args!("{error}; {hint}")),
            None => failure(FAILED, error),
        },
        replayer::Error::Worker
        | replayer::Error::Thread { .. }
        | replayer::Error::Watch { .. }
        | replayer::Error::Dump { .. }
        | replayer::Error::Cupti { .. } => failure(FAILED, error),
        error => {
            let hint = if arguments.untrusted { sandbox::hint() } else { "" };
            failure(NO_DRIVER, format_args!("{error}; the driver is {} ({}){hint}", found.path.display(), found.how))
        }
    }
}

/// Why the first difference is there, if that is to be found out.
fn explained(
    arguments: &Arguments,
    trace: &Trace,
    plan: &Plan,
    options: &Options,
    report: &Report,
) -> Option<Explanation> {
    // In the sandbox no second replay can be started.
    if !arguments.finding.explains() || arguments.untrusted {
        return None;
    }
    let limit = arguments.finding.explained_within();
    let (file, weights) = (&trace.path, &arguments.weights[..]);
    Question { trace, plan, options, report, file, weights, limit }.answer()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_trace_does_not_compute_for_ever() {
        #[derive(clap::Parser)]
        struct Replay {
            #[command(flatten)]
            arguments: Arguments,
        }
        let limit = |options: &[&str]| {
            let parsed = <Replay as clap::Parser>::try_parse_from([&["replay", "trace.bin"], options].concat());
            parsed.map_err(|error| error.to_string()).expect("options").arguments.timeout().map(|limit| limit.as_secs())
        };
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&["--untrusted"]), Some(600));
        assert_eq!(limit(&["--untrusted", "--timeout", "5"]), Some(5));
    }

    #[test]
    fn device_maps() {
        assert!(matches!("1".parse(), Ok(Devices::All(1))));
        let Ok(Devices::Each(map)) = "0=1, 1=0".parse() else { panic!("a map") };
        assert_eq!(map, HashMap::from([(0, 1), (1, 0)]));
        for wrong in ["", "x", "-1", "0=", "0=1,2"] {
            assert!(wrong.parse::<Devices>().is_err(), "{wrong}");
        }
    }
}
