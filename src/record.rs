//! `cutrace record`: runs a program with the recorder in front of its driver.

use crate::driver::{self, Choice};
use crate::exit::{self, CANNOT_EXECUTE, FAILED, NOT_FOUND, failure, say};
use crate::figures::{counted, grouped, size};
use crate::{program, verdict};
use anyhow::{Context, Result};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use trace::Trace;
use trace::finish::{self, Finished, finish};

/// Run a program and record its driver calls
///
/// Every process that calls the driver writes a trace of its own. The program's input, output and exit status are not
/// touched. One line on stderr tells what was recorded once the program has ended.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace record ./app --its-own-flags          into trace.bin (or trace.1.bin, ... if that exists)
  cutrace record -o '%n-%p.bin' -- python3 train.py
  cutrace record --driver sim -- ./app          without a GPU

Environment (read by the recorder in each process; `record` sets them, a bare LD_PRELOAD=libcutrace.so may):
  CUTRACE_OUTPUT    where traces go: %p process id, %n program name, %h host, %q{VAR} a variable, %% a percent
                    sign; a file that exists is never overwritten [default: trace.bin]
  CUTRACE_DATA      none, inputs or all, as --data [default: inputs]
  CUTRACE_LIBCUDA   path of the real driver
  CUTRACE_SESSION   a file to which each recorded process appends its id and the path of its trace
  CUTRACE_DISABLE   1: make the driver calls, record nothing
and by `record` itself:
  CUTRACE_SHIM      path of libcutrace.so
  CUTRACE_SIM       path of libcuda_sim.so, for --driver sim

Exit status: the program's own; 128 + signal if one ended it; 126 it cannot be run or recorded, 127 not found,
5 the driver asked for by --driver is not there.")]
pub struct Arguments {
    /// Name of the trace; %p, %n, %h and %q{VAR} stand for process id, program, host and a variable
    #[arg(short, long, value_name = "PATTERN")]
    output: Option<OsString>,
    /// How much of the program's data to keep: none (calls only, not replayable), inputs (and hashes of results), all
    #[arg(long, value_name = "LEVEL", value_parser = ["none", "inputs", "all"])]
    data: Option<String>,
    /// The driver to use: a path, or "sim" for the simulated one
    #[arg(long, value_name = "PATH|sim")]
    driver: Option<Choice>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let name = &arguments.command[0];
    let path = program::resolve(name)?;
    if let Some(why) = program::obstacles(&path).into_iter().next() {
        return Err(failure(CANNOT_EXECUTE, why));
    }
    let recorder = driver::recorder().map_err(|tried| {
        failure(CANNOT_EXECUTE, format_args!("the recorder libcutrace.so is missing; tried {}", tried.0.join("; ")))
    })?;
    let session = tempfile::Builder::new().prefix("cutrace-").tempfile().context("a temporary file")?;
    let mut command = Command::new(&path);
    command.arg0(name).args(&arguments.command[1..]);
    command.env("LD_PRELOAD", preload(&recorder.path, env::var_os("LD_PRELOAD"))?);
    command.env("CUTRACE_SESSION", session.path());
    command.env("CUTRACE_OUTPUT", output(arguments.output.as_deref())?);
    if let Some(data) = &arguments.data {
        command.env("CUTRACE_DATA", data);
    }
    match (driver::find(arguments.driver.as_ref().unwrap_or(&Choice::System)), &arguments.driver) {
        (Ok(found), _) => {
            command.env("CUTRACE_LIBCUDA", found.path);
        }
        // The program may do without: the recorder then answers as a machine without a driver does.
        (Err(_), None) => {}
        (Err(tried), Some(_)) => return Err(tried.as_failure("that driver is not there")),
    }
    let status = signals::run(&mut command).map_err(|error| {
        let status = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
        failure(status, format_args!("{}: {error}", path.display()))
    })?;
    close(session.path(), name);
    Ok(exit_status(status))
}

/// The recorder behind what is preloaded already.
fn preload(recorder: &Path, existing: Option<OsString>) -> Result<OsString> {
    let recorder = recorder.as_os_str().to_string_lossy().into_owned();
    if recorder.contains([' ', ':']) {
        let why = "LD_PRELOAD cannot hold a path with a space or a colon; install cutrace elsewhere";
        return Err(failure(CANNOT_EXECUTE, format_args!("{recorder}: {why}")));
    }
    let existing = existing.unwrap_or_default().to_string_lossy().into_owned();
    let mut all: Vec<&str> = existing.split([' ', ':']).filter(|p| !p.is_empty() && *p != recorder).collect();
    // An interposer in front of the recorder finds it by RTLD_NEXT, one behind it would be passed over. A sanitizer's runtime
    // insists on being first anyway.
    all.push(&recorder);
    Ok(all.join(":").into())
}

/// The pattern, made absolute: processes that change their directory write beside the others.
fn output(asked: Option<&OsStr>) -> Result<OsString> {
    let inherited = env::var_os("CUTRACE_OUTPUT").filter(|o| !o.is_empty());
    let pattern = asked.map(OsStr::to_owned).or(inherited).unwrap_or_else(|| "trace.bin".into());
    if pattern.is_empty() {
        return Err(failure(exit::USAGE, "--output: an empty name"));
    }
    let parent = Path::new(&pattern).parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|p| asked.is_some() && !p.to_string_lossy().contains('%') && !p.is_dir()) {
        return Err(failure(exit::USAGE, format_args!("--output: there is no directory {}", parent.display())));
    }
    if Path::new(&pattern).is_absolute() {
        return Ok(pattern);
    }
    let here = env::current_dir().context("the working directory")?;
    let mut whole = OsString::from(here.to_string_lossy().replace('%', "%%"));
    whole.push("/");
    whole.push(pattern);
    Ok(whole)
}

fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => FAILED,
    }
}

/// Closes the traces of all processes that have ended and says in one line what was recorded.
fn close(session: &Path, program: &OsStr) {
    let announced = std::fs::read_to_string(session).unwrap_or_default();
    let mut closed: Vec<(String, Finished)> = Vec::new();
    let mut running = Vec::new();
    // A process that could not create its trace has said why, and announces none.
    for path in announced.lines().filter_map(|line| line.split_once(' ')).map(|(_, path)| PathBuf::from(path)) {
        if path.as_os_str().is_empty() {
            continue;
        }
        let name = relative(&path);
        match Trace::open(&path).map_err(anyhow::Error::from).map(|trace| finish(&trace, verdict::of)) {
            Ok(Ok(finished)) => closed.push((name, finished)),
            Ok(Err(finish::Error::InUse { pid, .. })) => running.push(format!("{name} (process {pid})")),
            Ok(Err(error)) => say(error),
            Err(error) => say(exit::in_full(&error)),
        }
    }
    if closed.is_empty() && running.is_empty() {
        if env::var_os("CUTRACE_DISABLE").is_some_and(|value| value == "1") {
            say("CUTRACE_DISABLE is 1; nothing was recorded");
        } else if announced.is_empty() {
            let program = Path::new(program).display();
            say(format_args!("{program} made no CUDA driver call; nothing was recorded"));
        }
        return;
    }
    say(closing_line(&closed, &running));
}

fn closing_line(closed: &[(String, Finished)], running: &[String]) -> String {
    const NAMED: usize = 5;
    let mut line = String::new();
    if !closed.is_empty() {
        let mut names: Vec<&str> = closed.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
        let more = format!("and {} more", closed.len().saturating_sub(NAMED));
        if closed.len() > NAMED {
            names.push(&more);
        }
        let processes = if closed.len() == 1 { String::new() } else { format!("{} processes: ", closed.len()) };
        let calls: u64 = closed.iter().map(|(_, f)| f.calls).sum();
        let bytes: u64 = closed.iter().map(|(_, f)| f.bytes).sum();
        line =
            format!("{processes}{}: {}, {}, {}", names.join(", "), counted(calls, "call"), size(bytes), worst(closed));
        let lost: u64 = closed.iter().flat_map(|(_, f)| &f.losses).map(|(_, count)| count).sum();
        if lost != 0 {
            line += &format!(", {} losses (see cutrace info)", grouped(lost));
        }
    }
    if !running.is_empty() {
        let separator = if line.is_empty() { "" } else { "; " };
        line += &format!("{separator}still running, to be closed by cutrace repair: {}", running.join(", "));
    }
    line
}

/// The least of the verdicts, with its first reason.
fn worst(closed: &[(String, Finished)]) -> String {
    let rank = |finished: &Finished| match finished.verdict.as_str() {
        "replayable" => 0,
        "partly" => 1,
        _ => 2,
    };
    let Some((_, worst)) = closed.iter().max_by_key(|(_, finished)| rank(finished)) else { return String::new() };
    let reason = worst.reasons.first().map_or(String::new(), |reason| format!(" ({reason})"));
    match rank(worst) {
        0 => "replayable".into(),
        1 => format!("partly replayable{reason}"),
        _ => format!("not replayable{reason}"),
    }
}

fn relative(path: &Path) -> String {
    let here = env::current_dir().ok();
    let short = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    short.unwrap_or_else(|| path.to_path_buf()).display().to_string()
}

/// The launcher outlives what ends the program: the closing line is still to come.
mod signals {
    use std::io;
    use std::process::{Command, ExitStatus};
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

    static CHILD: AtomicI32 = AtomicI32::new(0);
    static TERMINATED: AtomicBool = AtomicBool::new(false);

    /// The terminal sends these to the program as well. A handler, unlike SIG_IGN, is not inherited.
    extern "C" fn outlive(_: libc::c_int) {}

    extern "C" fn forward(signal: libc::c_int) {
        TERMINATED.store(true, SeqCst);
        let child = CHILD.load(SeqCst);
        if child != 0 {
            // SAFETY: kill is async-signal-safe; the child has not been waited for while CHILD names it.
            unsafe { libc::kill(child, signal) };
        }
    }

    fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
        // SAFETY: the structs are filled in before use, and the handlers do nothing but async-signal-safe things. A
        // signal that was ignored when we were started (nohup) stays so, for the program too.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 || old.sa_sigaction == libc::SIG_IGN {
                return;
            }
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = handler as *const () as usize;
            new.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
    }

    pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
        handle(libc::SIGINT, outlive);
        handle(libc::SIGQUIT, outlive);
        handle(libc::SIGTERM, forward);
        handle(libc::SIGHUP, outlive);
        let mut child = command.spawn()?;
        CHILD.store(child.id() as i32, SeqCst);
        if TERMINATED.load(SeqCst) {
            // SAFETY: the child was just started and not yet waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        }
        let pid = child.id() as libc::id_t;
        // SAFETY: an all-zero siginfo_t is valid; WNOWAIT leaves the child to be reaped below, once CHILD is cleared.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            while libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT) != 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        CHILD.store(0, SeqCst);
        child.wait()
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
