//! How many threads the process may have, and how much memory. Linux has no limit that serves: RLIMIT_NPROC is
//! the user's and not root's, RLIMIT_AS counts the addresses that a driver reserves, by the terabyte. So a child
//! that keeps what the process gives up looks at it all the time, and ends it when it goes beyond.

use crate::exit::{FAILED, say};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// More than a driver and a replay have besides the workers, one for each thread that the trace has.
const THREADS: u64 = 1000;
const MOST_WORKERS: u64 = 4000;
const PACE: Duration = Duration::from_millis(50);

/// What the process may have.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    threads: u64,
    /// Bytes.
    memory: u64,
}

impl Limits {
    /// For a trace of so many threads: half the memory of the machine, unless `ulimit -m` says otherwise (which
    /// Linux heeds nowhere).
    pub fn of(threads: usize) -> io::Result<Limits> {
        let mut asked = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a struct of ours, which the call fills.
        if unsafe { libc::getrlimit(libc::RLIMIT_RSS, &raw mut asked) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = if asked.rlim_cur == libc::RLIM_INFINITY { machine()? / 2 } else { asked.rlim_cur };
        Ok(Limits { threads: THREADS + (threads as u64).min(MOST_WORKERS), memory })
    }

    /// What a process has beyond them.
    fn exceeded(&self, process: u32) -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let figure = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let threads = figure("Threads");
        if threads > self.threads {
            return Some(format!("the replay had {threads} threads, more than the {} that it may have", self.threads));
        }
        // What a file without a name holds is in no figure of the process unless it is mapped and was touched.
        let shared = (figure("RssShmem") << 10).max(nameless(process)?);
        let memory = ((figure("RssAnon") + figure("VmSwap")) << 10).saturating_add(shared);
        (memory > self.memory).then(|| {
            let (has, may) = (memory >> 20, self.memory >> 20);
            format!("the replay took {has} MiB of memory, more than the {may} MiB that it may (ulimit -m sets another limit)")
        })
    }

    /// Makes the child. To be called while there is one thread.
    pub fn watch(self) -> io::Result<()> {
        let process = std::process::id();
        // SAFETY: there is no other thread, whose locks the child would find closed.
        match unsafe { libc::fork() } {
            ..0 => Err(io::Error::last_os_error()),
            0 => self.look_on(process),
            _ => Ok(()),
        }
    }

    fn look_on(self, process: u32) -> ! {
        // SAFETY: plain calls. What a terminal sends to end the replay does not leave it unwatched meanwhile; the
        // end of the replay ends this process.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].into_iter().for_each(|signal| {
                libc::signal(signal, libc::SIG_IGN);
            });
        }
        while std::os::unix::process::parent_id() == process {
            if let Some(why) = self.exceeded(process) {
                say(format_args!("--untrusted: {why}: it was ended; there is no verdict"));
                // SAFETY: the parent, which is there as long as it is the parent.
                unsafe { libc::kill(process as i32, libc::SIGKILL) };
            }
            std::thread::sleep(PACE);
        }
        // SAFETY: ends the process without what its copy of the parent's would do at the end.
        unsafe { libc::_exit(FAILED.into()) }
    }
}

/// Bytes of the machine's memory.
fn machine() -> io::Result<u64> {
    // SAFETY: a plain struct, which the call fills.
    let about = unsafe {
        let mut about: libc::sysinfo = std::mem::zeroed();
        if libc::sysinfo(&raw mut about) != 0 {
            return Err(io::Error::last_os_error());
        }
        about
    };
    Ok(about.totalram.saturating_mul(about.mem_unit.into()))
}

/// Bytes of the files without a name (memfd_create) that a process has open. None: it has ended.
fn nameless(process: u32) -> Option<u64> {
    let open = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten();
    let files = open.filter_map(|entry| fs::metadata(entry.path()).ok());
    Some(files.filter(|file| file.is_file() && file.nlink() == 0).map(|file| file.blocks() * 512).sum())
}
