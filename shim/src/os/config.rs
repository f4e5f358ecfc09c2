//! CUTRACE_* variables, read at the first driver call. A bad value is reported on stderr and ignored.

use crate::os::environment::{self, text, variable};
use crate::os::log::tell;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use trace::base::amount;
use trace::file::preamble::{Data, LOCAL_RANK, RANK, RANKS};
use trace::read::annotation::Wanted;

#[derive(Debug)]
pub(crate) struct Config {
    pub disabled: bool,
    pub output: OsString,
    pub data: Data,
    /// Where each recorded process announces its trace to `cutrace record`.
    pub session: Option<PathBuf>,
    pub range: RangeRequest,
    /// How long the trace may get.
    pub max_size: Option<Limit>,
    /// Whether what lies in files that the program has mapped is to stay there.
    pub by_reference: bool,
    /// Whether device times are to be taken.
    pub gpu_times: bool,
    /// Whether what collectives deliver is to be kept.
    pub collectives: bool,
    /// Whether what imported memory holds when it is used is to be kept.
    pub shared_memory: bool,
}

/// A number of bytes, and its text in the variable.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    pub bytes: u64,
    pub words: String,
}

/// The events that open and close a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Trigger {
    #[default]
    None,
    /// cuProfilerStart and cuProfilerStop.
    Profiler,
    /// NVTX ranges of a name.
    Nvtx(Wanted),
    /// SIGUSR1 and SIGUSR2.
    Signals,
}

/// The requested range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeRequest {
    pub trigger: Trigger,
    /// From the first driver call.
    pub delay: Option<Duration>,
    /// From when the range is first open.
    pub duration: Option<Duration>,
    /// Those that are recorded always do not count.
    pub calls: Option<u64>,
    /// It is closed until `cutrace on` opens it.
    pub paused: bool,
}

pub(crate) fn read() -> Config {
    let data = match text("CUTRACE_DATA") {
        None => Data::Inputs,
        Some(text) => match Data::NAMES.iter().find(|(name, _)| *name == text) {
            Some((_, data)) => *data,
            None => {
                tell(&format!("CUTRACE_DATA={text:?}: expected none, inputs or all; recording inputs"));
                Data::Inputs
            }
        },
    };
    Config {
        disabled: switch("CUTRACE_DISABLE", "recording"),
        output: variable("CUTRACE_OUTPUT").filter(|o| !o.is_empty()).unwrap_or("trace.bin".into()),
        data,
        session: session(),
        range: range(),
        max_size: max_size(),
        by_reference: by_reference(),
        gpu_times: switch("CUTRACE_GPU_TIMES", "recording no device times"),
        collectives: switch("CUTRACE_COLLECTIVES", "not recording results of collectives"),
        shared_memory: switch("CUTRACE_SHARED_MEMORY", "not recording imported memory"),
    }
}

fn by_reference() -> bool {
    match text("CUTRACE_WEIGHTS").as_deref() {
        None | Some("" | "stored") => false,
        Some("reference") => true,
        Some(other) => {
            tell(&format!("CUTRACE_WEIGHTS={other:?}: expected stored or reference; storing"));
            false
        }
    }
}

/// What is shorter has no room for the chunks of one thread.
const LEAST: u64 = 1_000_000;

fn max_size() -> Option<Limit> {
    let words = text("CUTRACE_MAX_SIZE").filter(|text| !text.is_empty())?;
    let limit = amount::bytes(&words).filter(|bytes| *bytes >= LEAST);
    if limit.is_none() {
        tell(&format!("CUTRACE_MAX_SIZE={words:?}: expected a size of 1M or more (500M, 2G); ignored"));
    }
    limit.map(|bytes| Limit { bytes, words })
}

/// The same without a word about a value that is neither.
pub(crate) fn is_disabled() -> bool {
    variable("CUTRACE_DISABLE").is_some_and(|value| value == "1")
}

pub(crate) fn session() -> Option<PathBuf> {
    variable("CUTRACE_SESSION").map(PathBuf::from)
}

fn range() -> RangeRequest {
    let text = |name: &str| text(name).filter(|text| !text.is_empty());
    let seconds = |name: &str| {
        let text = text(name)?;
        let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if seconds.is_none() {
            tell(&format!("{name}={text:?}: expected SECONDS; ignored"));
        }
        seconds
    };
    let trigger = match text("CUTRACE_RANGE") {
        None => Trigger::None,
        Some(text) => match (text.as_str(), text.strip_prefix("nvtx:").and_then(Wanted::parse)) {
            ("profiler", _) => Trigger::Profiler,
            ("signals", _) => Trigger::Signals,
            (_, Some(wanted)) => Trigger::Nvtx(wanted),
            _ => {
                tell(&format!(
                    "CUTRACE_RANGE={text:?}: expected profiler, nvtx:NAME[@DOMAIN] or signals; recording everything"
                ));
                Trigger::None
            }
        },
    };
    let calls = text("CUTRACE_CALLS").and_then(|text| {
        text.parse().inspect_err(|_| tell(&format!("CUTRACE_CALLS={text:?}: expected a number; ignored"))).ok()
    });
    let (delay, duration) = (seconds("CUTRACE_DELAY"), seconds("CUTRACE_DURATION"));
    let paused = switch("CUTRACE_PAUSED", "recording from the start");
    RangeRequest { trigger, delay, duration, calls, paused }
}

/// A variable that is 0 or 1; `otherwise` is what happens without it.
fn switch(name: &str, otherwise: &str) -> bool {
    match text(name).as_deref() {
        None | Some("" | "0") => false,
        Some("1") => true,
        Some(other) => {
            tell(&format!("{name}={other:?}: expected 0 or 1; {otherwise}"));
            false
        }
    }
}

/// Where this process's trace goes: in a directory, which ends with a slash, under a name that tells the
/// processes of a job apart.
pub(crate) fn trace_path(pattern: &OsStr) -> OsString {
    let mut path = expand(pattern);
    if path.as_bytes().ends_with(b"/") {
        let rank = Rank::of_process().rank.map_or(String::new(), |rank| format!("rank{rank}-"));
        let program: String = program_name().chars().take(PROGRAM).collect();
        path.push(format!("{}-{rank}{program}-{}.bin", host(), std::process::id()));
    }
    path
}

/// Characters of the program's name in that of its trace, which file systems allow 255 bytes.
const PROGRAM: usize = 36;

/// The part of the job that is this process, according to its launcher. An invalid number is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    pub rank: Option<u64>,
    /// How many there are.
    pub ranks: Option<u64>,
    /// Among those of this host.
    pub local: Option<u64>,
}

impl Rank {
    /// torchrun's variables first: it runs within the jobs of the others, too.
    pub(crate) fn of_process() -> Rank {
        let first = |names: &[&str]| names.iter().find_map(|name| text(name)?.trim().parse().ok());
        let local = first(&["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"]);
        let rank = first(&["RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"]);
        let ranks = first(&["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"]);
        Rank { rank: rank.or(local), ranks, local }
    }

    /// By name, as a trace and the list of processes have them.
    pub(crate) fn variables(self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [(RANK, self.rank), (RANKS, self.ranks), (LOCAL_RANK, self.local)];
        all.into_iter().filter_map(|(name, number)| Some((name, number?)))
    }
}

/// Fills in the output pattern: %p process, %n program, %h host, %q{VAR} a variable, %% a percent sign.
pub(crate) fn expand(pattern: &OsStr) -> OsString {
    let mut out = Vec::new();
    let mut rest = pattern.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((code, tail)) = rest.split_first() else {
            out.push(b'%');
            break;
        };
        rest = tail;
        let variable = || tail.strip_prefix(b"{").and_then(|t| Some(t.split_at(t.iter().position(|b| *b == b'}')?)));
        match (code, variable()) {
            (b'p', _) => out.extend_from_slice(std::process::id().to_string().as_bytes()),
            (b'n', _) => out.extend_from_slice(program_name().as_bytes()),
            (b'h', _) => out.extend_from_slice(host().as_bytes()),
            (b'%', _) => out.push(b'%'),
            (b'q', Some((name, tail))) => {
                out.extend_from_slice(environment::variable(OsStr::from_bytes(name)).unwrap_or_default().as_bytes());
                rest = &tail[1..];
            }
            _ => {
                let code = char::from(*code);
                tell(&format!("CUTRACE_OUTPUT: %{code} is unknown (known: %p %n %h %q{{VAR}} %%); kept as it is"));
                out.extend_from_slice(&[b'%', code as u8]);
            }
        }
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

/// As it was where /proc was in reach.
static KEPT_PROGRAM: OnceLock<String> = OnceLock::new();

pub(crate) fn keep_program() {
    KEPT_PROGRAM.get_or_init(program);
}

pub(crate) fn program() -> String {
    let kept = || KEPT_PROGRAM.get().cloned().unwrap_or("?".into());
    std::fs::read_link("/proc/self/exe").map_or_else(|_| kept(), |path| path.to_string_lossy().into_owned())
}

fn program_name() -> String {
    let path = program();
    path.rsplit('/').next().unwrap_or("?").to_string()
}

pub(crate) fn host() -> String {
    // SAFETY: fills the struct that it is given, each field with a C string.
    let name = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&mut names);
        CStr::from_ptr(names.nodename.as_ptr()).to_string_lossy().into_owned()
    };
    if name.is_empty() { "?".into() } else { name }
}
