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
/// Every process that calls the driver writes its own trace. The program's input, output and exit status do
/// not change. When the program has ended, one line on stderr summarises the recording.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace record ./app --its-own-flags          into trace.bin, or trace.1.bin
  cutrace record -o '%n-%p.bin' -- python3 train.py
  cutrace record -o run/ -- torchrun --nproc-per-node 2 train.py
                                                all processes of a job, then cutrace info run/
  mpirun -n 4 cutrace record -o run/ ./app      the same
  cutrace record --driver sim -- ./app          without a GPU
  cutrace record --range nvtx:step ./app        only work within NVTX ranges
  cutrace record --gpu-times ./app              with device times
  LD_PRELOAD=$(cutrace record --print-preload) ./app
                                                when another program starts yours
  cutrace record --pack ./app                   a trace of a tenth of the size
  cutrace record --weights reference ./app      without copies of mapped files
  cutrace record --collectives -o run/ torchrun --nproc-per-node 8 train.py
                                                each rank can be replayed alone
  cutrace record --shared-memory -o run/ ./workers
                                                each process can be replayed alone

Environment (read by the recorder in each process; `record` sets them, and you can
set them for a bare LD_PRELOAD=libcutrace.so):
  CUTRACE_OUTPUT    names of traces, as --output [default: trace.bin]
  CUTRACE_DATA      none, inputs or all, as --data [default: inputs]
  CUTRACE_WEIGHTS   stored or reference, as --weights [default: stored]
  CUTRACE_LIBCUDA   path of the real driver
  CUTRACE_SESSION   a file to which each recorded process appends its id and
                    the path of its trace, if shared memory cannot be used
  CUTRACE_ANNOUNCEMENTS
                    that shared memory, which `record` creates
  CUTRACE_RANGE, CUTRACE_DELAY, CUTRACE_DURATION, CUTRACE_CALLS
                    as --range, --delay, --duration and --calls
  CUTRACE_MAX_SIZE  as --max-size
  CUTRACE_PAUSED    1: as --paused
  CUTRACE_GPU_TIMES 1: as --gpu-times; CUTRACE_CUPTI lists libraries to try,
                    separated by colons
  CUTRACE_COLLECTIVES
                    1: as --collectives
  CUTRACE_SHARED_MEMORY
                    1: as --shared-memory
  CUTRACE_DISABLE   1: make the driver calls, record nothing
  NVTX_INJECTION64_PATH
                    path of libcutrace.so, to record NVTX annotations;
                    `record` does not replace the path of another tool
  NCCL_PROFILER_PLUGIN
                    the same, to record NCCL collectives
and by `record` itself:
  CUTRACE_SHIM      path of libcutrace.so [default: next to cutrace, else the
                    one inside cutrace, unpacked into the cache directory]
  CUTRACE_SIM       path of libcuda_sim.so, for --driver sim

Exit status:
  the program's own; 128 + signal if a signal ended it
  126 the program cannot be run or recorded      127 program not found
  5 the driver of --driver is missing or not a library
  1 the trace cannot be written (if the program itself ended with 0)
  2 usage")]
pub(crate) struct Arguments {
    /// Name of the trace, or a directory [default: CUTRACE_OUTPUT, else trace.bin]
    ///
    /// In a name, %p is the process id, %n the program, %h the host, %q{VAR} a variable and %% a percent
    /// sign. An existing file is never overwritten. A directory (an existing one, or a name that ends with /)
    /// receives a trace of each process, named by host, rank, program and process, and a list of all
    /// processes, including those without driver calls.
    #[arg(short, long, value_name = "PATTERN")]
    output: Option<OsString>,
    /// Data to record: none, inputs or all [default: CUTRACE_DATA, else inputs]
    ///
    /// none records calls only and cannot be replayed; inputs records inputs and hashes of results; all
    /// records results, too.
    #[arg(long, value_name = "LEVEL", value_parser = ["none", "inputs", "all"], hide_possible_values = true)]
    data: Option<String>,
    /// How to store copies from mapped files such as weights: stored or reference [default: CUTRACE_WEIGHTS,
    /// else stored]
    ///
    /// stored writes the data into the trace. reference writes the file's name, the offset and a hash for
    /// each 256 KiB; a replay then needs the unchanged file (replay --weights), and cutrace pack --weights
    /// embeds the data.
    #[arg(long, hide_short_help = true, value_name = "HOW", value_parser = ["stored", "reference"], hide_possible_values = true)]
    weights: Option<String>,
    /// Record device work only within a range: profiler, nvtx:NAME or signals
    ///
    /// profiler is the range between cuProfilerStart and cuProfilerStop, signals from SIGUSR1 to SIGUSR2.
    /// nvtx:NAME is each NVTX range NAME of any domain; nvtx:NAME@DOMAIN, or nvtx:DOMAIN:NAME as reports
    /// print it, of one domain. Calls that create, change or destroy objects are always recorded.
    #[arg(long, help_heading = "Recording a part of the run", value_name = "RANGE", value_parser = range)]
    range: Option<String>,
    /// Start recording SECONDS after the first driver call
    #[arg(long, help_heading = "Recording a part of the run", value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    delay: Option<f64>,
    /// Stop recording SECONDS after it began
    #[arg(long, help_heading = "Recording a part of the run", value_name = "SECONDS", allow_negative_numbers = true, value_parser = some_seconds)]
    duration: Option<f64>,
    /// Stop recording after N calls; calls that are always recorded do not count
    #[arg(long, hide_short_help = true, help_heading = "Recording a part of the run", value_name = "N", allow_negative_numbers = true, value_parser = calls)]
    calls: Option<u64>,
    /// Start paused: `cutrace on PID` starts recording, `cutrace off PID` pauses it
    #[arg(long, help_heading = "Recording a part of the run")]
    paused: bool,
    /// Stop recording before the trace of a process exceeds SIZE: 500M, 2G, 1Gi (at least 1M)
    ///
    /// SIZE counts calls and data. The program continues, and the trace replays up to that call.
    #[arg(long, help_heading = "Recording a part of the run", value_name = "SIZE", allow_negative_numbers = true, value_parser = max_size)]
    max_size: Option<String>,
    /// Record device times with CUPTI; adds 1 to 2 us to each launch
    ///
    /// If libcupti is not found, or the program uses CUPTI itself, no device times are recorded and a message
    /// says so.
    #[arg(long, help_heading = "Recording more")]
    gpu_times: bool,
    /// Record the results of NCCL collectives, so that `replay --alone` can replay one rank
    ///
    /// Each collective is followed by a copy of its result to the host, which takes as long as the transfer
    /// over the bus, up to 1 GiB of pinned memory, and as many bytes in the trace. Graphs with collectives
    /// are instantiated twice.
    #[arg(long, hide_short_help = true, help_heading = "Recording more")]
    collectives: bool,
    /// Record the contents of imported memory, so that the process can be replayed without its peers
    ///
    /// Memory imported from other processes (cuIpcOpenMemHandle, imported descriptors and pools) is copied to
    /// the host before each launch, copy or graph launch that may use it; new contents are stored in the
    /// trace.
    #[arg(long, hide_short_help = true, help_heading = "Recording more")]
    shared_memory: bool,
    /// Compress each trace when it is closed, as cutrace pack does
    #[arg(long)]
    pack: bool,
    /// The driver to use: a path, or "sim" for the simulated driver
    #[arg(long, value_name = "PATH|sim")]
    driver: Option<Choice>,
    /// Print the path of the recorder, for LD_PRELOAD when another program starts yours
    #[arg(long, hide_short_help = true, exclusive = true)]
    print_preload: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "print_preload", trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
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
        failure(CANNOT_EXECUTE, format_args!("recorder libcutrace.so not found; tried {tried}"))
    };
    driver::recorder().map(|found| found.path).map_err(missing)
}

/// Variables that name the tool which a library of the program's tells of itself, and what is not recorded
/// where they name another than the recorder.
const TOOLS: [(&str, &str); 2] = [
    ("NVTX_INJECTION64_PATH", "NVTX annotations go to that tool and are not recorded"),
    ("NCCL_PROFILER_PLUGIN", "NCCL operations go to that tool and are not recorded; its kernels are"),
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
            let why = "no CUDA driver found; the program runs without one, unless it loads its own";
            say(format_args!("{why}; {}", tried.told()));
        }
        (Err(tried), Some(_)) => return Err(tried.as_failure("driver not found")),
    }
    Ok(())
}

fn range(text: &str) -> Result<String, String> {
    match text {
        "profiler" | "signals" => Ok(text.into()),
        _ if text.strip_prefix("nvtx:").and_then(Wanted::parse).is_some() => Ok(text.into()),
        _ => Err("expected profiler, nvtx:NAME, nvtx:NAME@DOMAIN or signals".into()),
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
        let why = "LD_PRELOAD cannot contain a path with a space or a colon; install cutrace elsewhere";
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
        say(format_args!("{shown} has {traces} of an earlier recording; this recording is added to it"));
    }
    let watch = Watch::begin(&folder, session);
    Ok(watch.inspect_err(|error| say(format_args!("cannot watch how processes end: {error}"))).ok())
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
