//! Limits on the process's threads and memory. None of Linux's limits fits: RLIMIT_NPROC counts per user and
//! exempts root, RLIMIT_AS counts the addresses that a driver reserves, by the terabyte. So a child with the
//! same restrictions watches the process, and ends it when it exceeds a limit.

use crate::terminal::exit::{FAILED, say};
use std::collections::HashSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// More than a driver and a replay have besides the workers, one for each thread that the trace has.
const THREADS: u64 = 1000;
const MOST_WORKERS: u64 = 4000;
const PACE: Duration = Duration::from_millis(50);

/// The limits of the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    threads: u64,
    /// Bytes.
    memory: u64,
}

impl Limits {
    /// For a trace of so many threads: half the memory of the machine or its cgroup, unless `ulimit -m` says otherwise (which
    /// Linux heeds nowhere).
    pub(super) fn of(threads: usize) -> io::Result<Limits> {
        let mut asked = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a struct of ours, which the call fills.
        if unsafe { libc::getrlimit(libc::RLIMIT_RSS, &raw mut asked) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = if asked.rlim_cur == libc::RLIM_INFINITY { machine()?.min(cgroup()) / 2 } else { asked.rlim_cur };
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
            return Some(format!("the replay had {threads} threads, the limit is {}", self.threads));
        }
        // What a file without a name holds is in no figure of the process unless it is mapped and was touched.
        let shared = (figure("RssShmem") << 10).max(nameless(process)?);
        let memory = ((figure("RssAnon") + figure("VmSwap")) << 10).saturating_add(shared);
        (memory > self.memory).then(|| {
            let (has, may) = (memory >> 20, self.memory >> 20);
            format!("the replay used {has} MiB of memory, the limit is {may} MiB (change it with ulimit -m)")
        })
    }

    /// Makes the child. To be called while there is one thread.
    pub(super) fn watch(self) -> io::Result<()> {
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
                // SAFETY: the parent, which is there as long as it is the parent. Its end must not end this
                // process before the line is out, nor may a full pipe delay it.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                    libc::kill(process as i32, libc::SIGKILL);
                }
                say(format_args!("--untrusted: {why}: replay stopped; no verdict"));
                break;
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

/// Bytes that the process's cgroup may have, or those around it.
fn cgroup() -> u64 {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = own.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        match controllers {
            "" => limit(Path::new("/sys/fs/cgroup"), path, "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                limit(Path::new("/sys/fs/cgroup/memory"), path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    limits.min().unwrap_or(u64::MAX)
}

fn limit(root: &Path, path: &str, file: &str) -> Option<u64> {
    let all = Path::new(path).ancestors().map(|path| root.join(path).join(file));
    all.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok()).min()
}

/// Bytes of memory in the files without a name (memfd_create) that a process has open. None: it has ended.
fn nameless(process: u32) -> Option<u64> {
    let (mut known, mut bytes) = (HashSet::new(), 0);
    for entry in fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten() {
        let Ok(file) = fs::metadata(entry.path()) else { continue };
        let is_new = file.is_file() && file.nlink() == 0 && known.insert((file.dev(), file.ino()));
        if is_new && is_memory(&entry.path()) {
            bytes += file.blocks() * 512;
        }
    }
    Some(bytes)
}

/// Whether a file takes memory rather than a disk.
fn is_memory(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a path with its end, and a plain struct, which the call fills.
    unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        let is_known = libc::statfs(path.as_ptr(), &raw mut about) == 0;
        is_known && [libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC].contains(&about.f_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::FromRawFd;

    #[test]
    fn a_file_of_memory_counts_once() {
        const BYTES: u64 = 64 << 20;
        let before = nameless(std::process::id()).unwrap();
        // SAFETY: a plain system call, whose descriptor is nobody else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC)) };
        // SAFETY: a file of this test.
        assert_eq!(unsafe { libc::fallocate(std::os::fd::AsRawFd::as_raw_fd(&file), 0, 0, BYTES as i64) }, 0);
        let _again = [file.try_clone().unwrap(), file.try_clone().unwrap()];
        let counted = nameless(std::process::id()).unwrap() - before;
        assert!((BYTES..2 * BYTES).contains(&counted), "{counted}");
    }
}
