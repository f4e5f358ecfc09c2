//! The processes of a job. If traces go to a directory (CUTRACE_OUTPUT ends with a slash), each process has a
//! file of lines there, even if it never calls the driver. FORMAT.md describes the lines.
//!
//! A line is written before the program begins, in a forked child before it continues, with the first driver
//! call, and at `exit`. Each line is written whole, so that the earlier lines remain however the process
//! ends. A line that could not be written is not reported: nobody has asked this process for anything.
//!
//! A forked child allocates nothing: another library's allocator may not be ready yet.

use crate::os::config::{self, Rank};
use crate::os::transparency::{unseen, without_signals};
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fmt::Write;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;
use trace::base::job::{self, quoted};

/// What does not change while the process is what it is, nor in its forks.
struct Job {
    /// Of the files of this host's processes: their directory and how their names begin.
    prefix: Vec<u8>,
    /// Fields that each line that begins a process has, with the closing brace.
    about: String,
}

/// None where traces do not go to a directory.
static JOB: OnceLock<Option<Job>> = OnceLock::new();

/// Run by the loader before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

unsafe extern "C" {
    fn on_exit(run: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn at_start() {
    // SAFETY: a C string; nobody changes the environment before the program runs.
    let output = unsafe { libc::getenv(c"CUTRACE_OUTPUT".as_ptr()) };
    // SAFETY: null, or a C string.
    if output.is_null() || !unsafe { CStr::from_ptr(output) }.to_bytes().ends_with(b"/") {
        return;
    }
    // A panic must not leave through the loader.
    drop(std::panic::catch_unwind(|| {
        let Some(job) = JOB.get_or_init(|| (!config::is_disabled()).then(describe)) else { return };
        if began(job, false).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            let folder = Path::new(OsStr::from_bytes(&job.prefix)).parent();
            if folder.is_some_and(|folder| std::fs::create_dir_all(folder).is_ok()) {
                let _unsaid = began(job, false);
            }
        }
        // SAFETY: plain functions. Where one cannot be registered, there is a line less.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            on_exit(at_exit, std::ptr::null_mut());
        }
    }));
}

fn describe() -> Job {
    let host = config::host();
    let mut prefix = config::expand(&std::env::var_os("CUTRACE_OUTPUT").unwrap_or_default()).into_vec();
    prefix.extend([job::PROCESSES.as_bytes(), b"/", host.as_bytes(), b"-"].concat());
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = command.strip_suffix(b"\0").unwrap_or(&command).split(|byte| *byte == 0);
    let mut about = format!(",\"host\":{},\"boot\":{}", quoted(&host), quoted(boot.trim()));
    for (name, number) in Rank::of_process().variables() {
        about += &format!(",{}:{number}", quoted(&name.replace(' ', "_")));
    }
    if let Some(session) = config::session() {
        about += &format!(",\"session\":{}", quoted(&session.to_string_lossy()));
    }
    about += &format!(",\"program\":{},\"command\":[", quoted(&config::program()));
    for (index, word) in command.enumerate() {
        if about.len() + word.len() > job::LINE - HEAD {
            break;
        }
        about += if index > 0 { "," } else { "" };
        about += &quoted(&String::from_utf8_lossy(word));
    }
    about += "]}\n";
    Job { prefix, about }
}

extern "C" fn in_child() {
    if let Some(Some(job)) = JOB.get() {
        unseen(|| _ = began(job, true));
    }
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    let Some(Some(job)) = JOB.get() else { return };
    unseen(|| {
        let mut line = Line::new("ended");
        _ = writeln!(line, ",\"status\":{}}}", status & 0xff);
        _ = line.append(job, b"");
    });
}

fn began(job: &Job, is_forked: bool) -> io::Result<()> {
    let mut line = Line::new("began");
    // SAFETY: takes nothing.
    _ = write!(line, ",\"parent\":{},\"forked\":{is_forked}", unsafe { libc::getppid() });
    line.append(job, job.about.as_bytes())
}

/// This process has a trace.
pub(crate) fn recorded(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    append_line("recorded", "trace", &name);
}

/// This process has called the driver and can have no trace.
pub(crate) fn not_recorded(why: &str) {
    append_line("not recorded", "why", why);
}

fn append_line(what: &str, name: &str, value: &str) {
    let Some(Some(job)) = JOB.get() else { return };
    let rest = format!(",{}:{}}}\n", quoted(name), quoted(value));
    _ = Line::new(what).append(job, rest.as_bytes());
}

/// How a line begins.
const HEAD: usize = 512;

struct Line {
    bytes: [u8; HEAD],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

impl Line {
    fn new(what: &str) -> Line {
        let mut line = Line { bytes: [0; HEAD], len: 0 };
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: fills the struct that it is given.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
        let time = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let (pid, start) = (std::process::id(), start());
        _ = write!(line, "{{\"what\":\"{what}\",\"time\":{time},\"pid\":{pid},\"start\":{start}");
        line
    }

    /// Writes the line with what follows, in one call.
    fn append(&self, job: &Job, rest: &[u8]) -> io::Result<()> {
        let mut path = [0u8; libc::PATH_MAX as usize];
        let mut name = Line { bytes: [0; HEAD], len: 0 };
        _ = write!(name, "{}{}", std::process::id(), job::EXTENSION);
        let name = &name.bytes[..name.len];
        let room = path.get_mut(..job.prefix.len() + name.len() + 1).ok_or(io::ErrorKind::InvalidFilename)?;
        room[..job.prefix.len()].copy_from_slice(&job.prefix);
        room[job.prefix.len()..][..name.len()].copy_from_slice(name);
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let parts = [&self.bytes[..self.len], rest];
        let parts = parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        without_signals(|| {
            // SAFETY: the path is a C string, the parts are valid, and the descriptor is ours.
            unsafe {
                let file = libc::open(path.as_ptr().cast(), flags, 0o600);
                if file < 0 {
                    return Err(io::Error::last_os_error());
                }
                let written = libc::writev(file, parts.as_ptr(), parts.len() as c_int);
                let error = io::Error::last_os_error();
                libc::close(file);
                if written < 0 { Err(error) } else { Ok(()) }
            }
        })
    }
}

/// When this process was started, in ticks since the machine was: with its number it names one process for
/// good.
fn start() -> u64 {
    let mut stat = [0u8; 1024];
    // SAFETY: a C string, a buffer of this length, and a descriptor of ours.
    let len = unsafe {
        let file = libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return 0;
        }
        let len = libc::read(file, stat.as_mut_ptr().cast(), stat.len());
        libc::close(file);
        len
    };
    job::start_in(&stat[..len.max(0) as usize]).unwrap_or(0)
}
