//! `cutrace record`: runs a program with the recorder in front of its driver.

mod output;

use crate::arguments::reading::count;
use crate::commands::session;
use crate::commands::watch::{self, Watch};
use crate::driver::cupti;
use crate::driver::{self, Choice, Tried};
use crate::process::{program, program_output, signals};
use crate::terminal::exit::{CANNOT_EXECUTE, DONE, FAILED, NOT_FOUND, failure, say};
use crate::terminal::standard_output::Results;
use analysis::job;
use analysis::text::figures::counted;
use anyhow::{Context, Result};
use output::{Output, output, parent};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime};
use trace::base::amount;
use trace::base::announcements::{self, Announcements};
use trace::file::record::Ended;
use trace::read::annotation::Wanted;
use trace::write::finish::clock;

/// Run a program and record its driver calls
///
/// Every process that calls the driver writes a trace of its own. The program's input, output and exit status
/// are not touched. One line on stderr tells what was recorded once the program has ended.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace record ./app --its-own-flags          into trace.bin, or trace.1.bin
  cutrace record -o '%n-%p.bin' -- python3 train.py
  cutrace record -o run/ -- torchrun --nproc-per-node 2 train.py
                                                all processes of a job, then cutrace info run/
  mpirun -n 4 cutrace record -o run/ ./app      the same
  cutrace record --driver sim -- ./app          without a GPU
  cutrace record --range nvtx:step ./app        work within NVTX ranges alone
  cutrace record --gpu-times ./app              and when the device worked
  LD_PRELOAD=$(cutrace record --print-preload) ./app
                                                where something else starts it
  cutrace record --pack ./app                   a trace in a tenth of the space
  cutrace record --weights reference ./app      what lies in mapped files stays there
  cutrace record --collectives -o run/ torchrun --nproc-per-node 8 train.py
                                                a job of which each rank replays alone
  cutrace record --shared-memory -o run/ ./workers
                                                of which what imported memory replays alone

Environment (read by the recorder in each process; `record` sets them, a bare
LD_PRELOAD=libcutrace.so may):
  CUTRACE_OUTPUT    where traces go, a pattern as for --output
                    [default: trace.bin]
  CUTRACE_DATA      none, inputs or all, as --data [default: inputs]
  CUTRACE_WEIGHTS   stored or reference, as --weights [default: stored]
  CUTRACE_LIBCUDA   path of the real driver
  CUTRACE_SESSION   a file to which each recorded process appends its id and
                    the path of its trace, where it cannot say so in shared
                    memory
  CUTRACE_ANNOUNCEMENTS
                    that memory, which `record` makes
  CUTRACE_RANGE, CUTRACE_DELAY, CUTRACE_DURATION, CUTRACE_CALLS
                    as --range, --delay, --duration and --calls
  CUTRACE_MAX_SIZE  as --max-size
  CUTRACE_PAUSED    1: as --paused
  CUTRACE_GPU_TIMES 1: as --gpu-times; CUTRACE_CUPTI names libraries to try,
                    separated by colons
  CUTRACE_COLLECTIVES
                    1: as --collectives
  CUTRACE_SHARED_MEMORY
                    1: as --shared-memory
  CUTRACE_DISABLE   1: make the driver calls, record nothing
  NVTX_INJECTION64_PATH
                    path of libcutrace.so: annotations by NVTX are recorded;
                    `record` leaves another tool's path as it is
  NCCL_PROFILER_PLUGIN
                    the same: NCCL's collectives are recorded
and by `record` itself:
  CUTRACE_SHIM      path of libcutrace.so [default: beside cutrace, else one
                    that it holds itself and puts into the cache directory]
  CUTRACE_SIM       path of libcuda_sim.so, for --driver sim

Exit status:
  the program's own; 128 + signal if one ended it
  126 it cannot be run or recorded      127 not found
  5 the driver asked for by --driver is not there, or is no library
  1 the trace cannot go where it should, or could not and the program ended with 0
  2 usage")]
pub struct Arguments {
    /// Name of the trace; %p, %n, %h and %q{VAR} stand for process id, program, host and a variable, %% for a
    /// percent sign; a file that exists is never overwritten. A directory (one that is there, or a name that
    /// ends with /) takes a trace of each process, named by host, rank, program and process, and a list of
    /// all processes, also of those that never call the driver [default: CUTRACE_OUTPUT, else trace.bin]
    #[arg(short, long, value_name = "PATTERN")]
    output: Option<OsString>,
    /// How much of the program's data to keep: none (calls only, not replayable), inputs (and hashes of
    /// results), all [default: CUTRACE_DATA, else inputs]
    #[arg(long, value_name = "LEVEL", value_parser = ["none", "inputs", "all"], hide_possible_values = true)]
    data: Option<String>,
    /// What is stored of copies whose source is mapped from a file, as weights are: all of it (stored), or
    /// the name of the file, place and hash (reference), of pieces of 256 KiB. A replay needs the file
    /// then, unchanged (replay --weights); cutrace pack --weights makes the trace whole [default:
    /// CUTRACE_WEIGHTS, else stored]
    #[arg(long, value_name = "HOW", value_parser = ["stored", "reference"], hide_possible_values = true)]
    weights: Option<String>,
    /// Record work only within a range: from cuProfilerStart to cuProfilerStop (profiler), within NVTX ranges
    /// of a name (nvtx:NAME, of any domain; nvtx:NAME@DOMAIN or, as reports print it, nvtx:DOMAIN:NAME, of
    /// one), or from SIGUSR1 to SIGUSR2 (signals). Calls that make, change or end objects are recorded always
    #[arg(long, value_name = "profiler|nvtx:NAME[@DOMAIN]|signals", value_parser = range)]
    range: Option<String>,
    /// Begin the range so many seconds after the first driver call
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    delay: Option<f64>,
    /// End the range for good so many seconds after it began
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = some_seconds)]
    duration: Option<f64>,
    /// End the range for good after so many calls; those that are recorded always are not counted
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = calls)]
    calls: Option<u64>,
    /// Begin with the range closed: `cutrace on PID` opens it, `cutrace off PID` closes it again
    #[arg(long)]
    paused: bool,
    /// Stop recording before the trace of a process, calls and data, gets longer: 500M, 2G, 1Gi. The program
    /// goes on, and the trace replays up to there
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = max_size)]
    max_size: Option<String>,
    /// Record when the device did each kernel, copy and fill, too, as CUPTI tells it: one to two microseconds
    /// a launch. Where libcupti is not found, or the program uses CUPTI itself, no times are taken and a line
    /// says so
    #[arg(long)]
    gpu_times: bool,
    /// Keep what NCCL's collectives deliver to each rank, so that `replay --alone` can do one rank without
    /// the others: a copy to the host behind each, as long as what it delivers takes to come over the bus, up
    /// to 1 GiB of pinned memory, and as many bytes in the trace. Graphs that hold some are instantiated twice
    #[arg(long)]
    collectives: bool,
    /// Keep what memory of other processes (cuIpcOpenMemHandle, imported descriptors and pools) holds
    /// before each launch, copy or graph launch that may use it, so that the process that imported it can
    /// be replayed without the others: a copy to the host of all of that memory each time, and as many
    /// bytes in the trace as are new there
    #[arg(long)]
    shared_memory: bool,
    /// Compress each trace when it is closed, as cutrace pack does
    #[arg(long)]
    pack: bool,
    /// The driver to use: a path, or "sim" for the simulated one
    #[arg(long, value_name = "PATH|sim")]
    driver: Option<Choice>,
    /// Print the path of the recorder, to be put into LD_PRELOAD where something else starts the program
    #[arg(long, exclusive = true)]
    print_preload: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "print_preload", trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub fn run(arguments: Arguments) -> Result<u8> {
    if arguments.print_preload {
        let recorder = preload(&recorder()?, None)?;
        driver::put_simulated_with_recorder();
        let mut out = Results::begin();
        out.write_all(recorder.as_bytes())?;
        writeln!(out)?;
        return Ok(DONE);
    }
    let name = &arguments.command[0];
    let path = program::resolve(name)?;
    if let Some(why) = program::obstacles(&path).into_iter().next() {
        return Err(failure(CANNOT_EXECUTE, why));
    }
    let recorder = recorder()?;
    let mut command = Command::new(&path);
    command.arg0(name).args(&arguments.command[1..]);
    command.env("LD_PRELOAD", preload(&recorder, env::var_os("LD_PRELOAD"))?);
    let Output { pattern, job, instead, existing } = output(arguments.output.as_deref())?;
    // Of all programs: the one that is started may start others that are built with it.
    command.env(program::ASAN_OPTIONS, program::asan_options(env::var_os(program::ASAN_OPTIONS)));
    command.env("CUTRACE_OUTPUT", &pattern);
    set_recorder(&mut command, &arguments, &recorder);
    set_driver(&mut command, &arguments, &path)?;
    let stdout = program_output::Output::here();
    // Not before: what interrupts us until the program runs would leave it behind.
    session::remove_left();
    let session = session::begin().with_context(|| session::temporary("file"))?;
    command.env("CUTRACE_SESSION", session.path());
    let announcements = announcements(&mut command);
    let watch = job.as_deref().map(|directory| begin_job(directory, session.path())).transpose()?.flatten();
    let (pid, status) = signals::run(&mut command).map_err(|error| {
        let status = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
        failure(status, format_args!("{}: {error}", path.display()))
    })?;
    let ended_at = clock();
    let ended = Ended { status: status.code().unwrap_or(0), signal: status.signal().unwrap_or(0) };
    let others = watch.map(|watch| watch.end(pid, ended)).unwrap_or_default();
    let asked = session::Asked {
        session: session.path(),
        announcements: &announcements,
        program: name,
        existing: existing.as_deref(),
        directory: job.clone().or_else(|| parent(&pattern)),
        job: job.as_deref(),
        instead,
        range: arguments.range.as_deref(),
        delay: arguments.delay,
        paused: arguments.paused,
        pack: arguments.pack,
        printed: stdout.and_then(|stdout| stdout.printed().ok().flatten()),
        pid,
        ended,
        ended_at,
        others,
    };
    // The traces are read now, and whoever cuts one short does not change how the program has ended.
    let unread = if status.success() { FAILED } else { exit_status(status) };
    signals::end_where_a_trace_is_cut(unread, unread);
    let untraced = session::close(&asked);
    // The program's status, unless that would tell of a success.
    Ok(if status.success() && untraced > 0 { FAILED } else { exit_status(status) })
}

/// The memory in which the processes say what they do, which is there as long as this one has it.
fn announcements(command: &mut Command) -> std::io::Result<Announcements> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let made = Announcements::make(now ^ u64::from(std::process::id()) << 40);
    command.env_remove(announcements::VARIABLE);
    made.map(|(all, named)| {
        command.env(announcements::VARIABLE, named);
        all
    })
}

fn recorder() -> Result<PathBuf> {
    let missing = |tried: Tried| {
        let tried = tried.0.join("; ");
        failure(CANNOT_EXECUTE, format_args!("there is no recorder libcutrace.so to preload; tried {tried}"))
    };
    driver::recorder().map(|found| found.path).map_err(missing)
}

/// Variables that name the tool which a library of the program's tells of itself, and what is not recorded
/// where they name another than the recorder.
const TOOLS: [(&str, &str); 2] = [
    ("NVTX_INJECTION64_PATH", "annotations by NVTX go there and are not recorded"),
    ("NCCL_PROFILER_PLUGIN", "what NCCL does is told there and not recorded; the names of its kernels are"),
];

/// What the recorder reads.
fn set_recorder(command: &mut Command, arguments: &Arguments, recorder: &Path) {
    for (variable, lost) in TOOLS {
        match env::var_os(variable).filter(|tool| !tool.is_empty()) {
            Some(tool) if Path::new(&tool) != recorder => {
                say(format_args!("{variable} is {}: {lost}", tool.display()));
            }
            _ => {
                command.env(variable, recorder);
            }
        }
    }
    let number = |number: f64| number.to_string();
    for (name, value) in [
        ("CUTRACE_DATA", arguments.data.clone()),
        ("CUTRACE_WEIGHTS", arguments.weights.clone()),
        ("CUTRACE_RANGE", arguments.range.clone()),
        ("CUTRACE_DELAY", arguments.delay.map(number)),
        ("CUTRACE_DURATION", arguments.duration.map(number)),
        ("CUTRACE_CALLS", arguments.calls.map(|calls| calls.to_string())),
        ("CUTRACE_PAUSED", arguments.paused.then(|| "1".to_owned())),
        ("CUTRACE_MAX_SIZE", arguments.max_size.clone()),
        ("CUTRACE_GPU_TIMES", arguments.gpu_times.then(|| "1".to_owned())),
        ("CUTRACE_SHARED_MEMORY", arguments.shared_memory.then(|| "1".to_owned())),
        ("CUTRACE_COLLECTIVES", arguments.collectives.then(|| "1".to_owned())),
    ] {
        command.envs(value.map(|value| (name, value)));
    }
}

/// The driver that the program gets, and what takes its times. `program`: its file.
fn set_driver(command: &mut Command, arguments: &Arguments, program: &Path) -> Result<()> {
    match (driver::find(arguments.driver.as_ref().unwrap_or(&Choice::System)), &arguments.driver) {
        (Ok(found), asked) => {
            if asked.is_some() {
                driver::loads(&found)?;
            }
            if arguments.gpu_times || env::var_os("CUTRACE_GPU_TIMES").is_some_and(|asked| asked == "1") {
                let driver = arguments.driver.as_ref().unwrap_or(&Choice::System);
                // What is not found is said by the recorder, which knows what the program itself has loaded.
                if let Ok(libraries) = cupti::find(driver, &found.path, Some(program)) {
                    command.env(cupti::VARIABLE, env::join_paths(libraries).context("the paths of libcupti")?);
                }
            }
            command.env("CUTRACE_LIBCUDA", found.path);
        }
        // The program may do without: the recorder then answers as a machine without a driver does.
        (Err(tried), None) => {
            let why = "no CUDA driver found; the program runs without one, unless it brings its own";
            say(format_args!("{why}; {}", tried.told()));
        }
        (Err(tried), Some(_)) => return Err(tried.as_failure("that driver is not there")),
    }
    Ok(())
}

fn range(text: &str) -> Result<String, String> {
    match text {
        "profiler" | "signals" => Ok(text.into()),
        _ if text.strip_prefix("nvtx:").and_then(Wanted::parse).is_some() => Ok(text.into()),
        _ => Err("there are profiler, nvtx:NAME, nvtx:NAME@DOMAIN and signals".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| Duration::try_from_secs_f64(*seconds).is_ok());
    seconds.ok_or_else(|| "expected a number of seconds, 0 or more: 1.5".into())
}

/// A range that is over at once would be empty.
fn some_seconds(text: &str) -> Result<f64, String> {
    let seconds = seconds(text).ok().filter(|seconds| *seconds > 0.0);
    seconds.ok_or_else(|| "expected a number of seconds, more than 0: 1.5".into())
}

/// As `some_seconds`.
fn calls(text: &str) -> Result<u64, String> {
    let calls = count(text).ok().filter(|calls| *calls > 0);
    calls.ok_or_else(|| format!("expected a number of calls, from 1 to {}", u64::MAX))
}

/// As it is written: the recorder reads it.
fn max_size(text: &str) -> Result<String, String> {
    let is_enough = amount::bytes(text).is_some_and(|bytes| bytes >= 1_000_000);
    is_enough.then(|| text.to_owned()).ok_or_else(|| "expected a size of 1M or more: 500M, 2G, 1Gi".into())
}

/// The recorder behind what is preloaded already.
fn preload(recorder: &Path, existing: Option<OsString>) -> Result<OsString> {
    let recorder = recorder.as_os_str().as_bytes();
    let separates = |byte: &u8| [b' ', b':'].contains(byte);
    if recorder.iter().any(separates) {
        let why = "LD_PRELOAD cannot hold a path with a space or a colon; install cutrace elsewhere";
        return Err(failure(CANNOT_EXECUTE, format_args!("{}: {why}", OsStr::from_bytes(recorder).display())));
    }
    let existing = existing.unwrap_or_default().into_vec();
    let mut all: Vec<&[u8]> = existing.split(separates).filter(|p| !p.is_empty() && *p != recorder).collect();
    // An interposer in front of the recorder finds it by RTLD_NEXT, one behind it would be passed over. A
    // sanitizer's runtime insists on being first anyway.
    all.push(recorder);
    Ok(OsString::from_vec(all.join(&b':')))
}

/// Makes the directory of a job, and has its processes watched.
fn begin_job(directory: &Path, session: &Path) -> Result<Option<Watch>> {
    let shown = directory.display();
    let in_the_way = |error: std::io::Error| failure(FAILED, format_args!("--output: {shown}: {}", error.kind()));
    let folder = watch::folder(directory).map_err(in_the_way)?;
    let closed = job::closed_traces(directory);
    if closed > 0 {
        let traces = counted(closed, "trace");
        say(format_args!(
            "{shown} holds {traces} of a recording that has ended; what is recorded now is put beside them"
        ));
    }
    let watch = Watch::begin(&folder, session);
    Ok(watch.inspect_err(|error| say(format_args!("how processes end will not be known: {error}"))).ok())
}

fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorder_comes_last() {
        let of = |existing: &str| preload(Path::new("/x/libcutrace.so"), Some(existing.into())).expect("a plain path");
        assert_eq!(of(""), "/x/libcutrace.so");
        assert_eq!(of("/a.so b.so"), "/a.so:b.so:/x/libcutrace.so");
        assert_eq!(of("/lib/libasan.so.8:/a.so"), "/lib/libasan.so.8:/a.so:/x/libcutrace.so");
        assert_eq!(of("/x/libcutrace.so:/a.so"), "/a.so:/x/libcutrace.so");
        assert!(preload(Path::new("/x y/libcutrace.so"), None).is_err());
    }
}
