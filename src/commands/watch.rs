//! The end of each process of a recording. `record` is the parent of only one of them, and watches the others
//! by their descriptors (pidfd). Linux reports the exit status of a process that is not a child from 6.15 on,
//! before that only until its parent has reaped it. If it is not known, the process's own announcement at
//! `exit` is used.

use analysis::job::{is_zombie, lines};
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use trace::base::job::{EXTENSION, field, start_in};
use trace::file::record::Ended;
use trace::write::finish::clock;

pub(crate) struct Watch {
    thread: JoinHandle<Watched>,
    is_over: Arc<AtomicBool>,
}

/// A process that runs.
struct Running {
    pid: u32,
    start: u64,
    descriptor: OwnedFd,
    file: PathBuf,
}

impl Watch {
    /// Watches for files in this folder, whose processes name this session as theirs.
    pub(crate) fn begin(folder: &Path, session: &Path) -> io::Result<Watch> {
        // SAFETY: makes a descriptor, which is ours.
        let notices = match unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) } {
            ..0 => return Err(io::Error::last_os_error()),
            // SAFETY: just made.
            descriptor => unsafe { OwnedFd::from_raw_fd(descriptor) },
        };
        let path = CString::new(folder.as_os_str().as_bytes())?;
        // SAFETY: a C string, and our own descriptor.
        if unsafe { libc::inotify_add_watch(notices.as_raw_fd(), path.as_ptr(), libc::IN_CLOSE_WRITE) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, folder, session) = (is_over.clone(), folder.to_path_buf(), session.display().to_string());
        let thread = std::thread::Builder::new().spawn(move || {
            let mut watched = Watched { folder, session, running: Vec::new(), ended: HashMap::new() };
            loop {
                let is_last = over.load(SeqCst);
                watched.look(&notices, if is_last { 0 } else { PAUSE });
                if is_last {
                    return watched;
                }
            }
        })?;
        Ok(Watch { thread, is_over })
    }

    /// How those ended that have, and when (nanoseconds of CLOCK_MONOTONIC_RAW), by process. `ended`: how the one
    /// did that has been waited for.
    pub(crate) fn end(self, waited: u32, ended: Ended) -> HashMap<u32, (Ended, u64)> {
        self.is_over.store(true, SeqCst);
        let Ok(mut watched) = self.thread.join() else { return HashMap::new() };
        if !watched.ended.contains_key(&waited) {
            watched.tell(waited, ended);
        }
        watched.ended
    }
}

/// Milliseconds until it is looked whether the recording is over.
const PAUSE: c_int = 50;

struct Watched {
    folder: PathBuf,
    session: String,
    running: Vec<Running>,
    ended: HashMap<u32, (Ended, u64)>,
}

impl Watched {
    /// Of a process whose file has not been looked at.
    fn tell(&mut self, pid: u32, ended: Ended) {
        let end = format!("-{pid}{EXTENSION}");
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in files.filter(|file| file.as_os_str().as_bytes().ends_with(end.as_bytes())) {
            let began = lines::last_began(&file).filter(|(of, _, session)| *of == pid && *session == self.session);
            if let Some((_, start, _)) = began {
                let _only_kept_here = lines::add_ended(&file, pid, start, ended);
                self.ended.insert(pid, (ended, clock()));
            }
        }
    }

    fn look(&mut self, notices: &OwnedFd, pause: c_int) {
        let descriptors = self.running.iter().map(|running| running.descriptor.as_raw_fd());
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut all: Vec<libc::pollfd> = std::iter::once(notices.as_raw_fd()).chain(descriptors).map(wanted).collect();
        // SAFETY: an array of this length.
        if unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, pause) } <= 0 {
            return;
        }
        let has_ended = |index: usize| all[index + 1].revents != 0;
        let mut index = 0;
        let (gone, running) = std::mem::take(&mut self.running).into_iter().partition(|_| {
            index += 1;
            has_ended(index - 1)
        });
        self.running = running;
        let gone: Vec<Running> = gone;
        for process in gone {
            if let Some(ended) = how(&process) {
                let _only_kept_here = lines::add_ended(&process.file, process.pid, process.start, ended);
                self.ended.insert(process.pid, (ended, clock()));
            }
        }
        for name in names(notices) {
            let file = self.folder.join(name);
            let Some((pid, start, session)) = lines::last_began(&file) else { continue };
            let is_known = self.running.iter().any(|running| (running.pid, running.start) == (pid, start));
            if session == self.session && !is_known {
                self.running.extend(open(pid).filter(|_| start_of(pid) == Some(start)).map(|descriptor| Running {
                    pid,
                    start,
                    descriptor,
                    file,
                }));
            }
        }
    }
}

/// The files that were written.
fn names(notices: &OwnedFd) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    const HEAD: usize = size_of::<libc::inotify_event>();
    let mut names = Vec::new();
    let mut bytes = [0u8; 1 << 16];
    loop {
        // SAFETY: a buffer of this length.
        let read = unsafe { libc::read(notices.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        let mut rest = &bytes[..read];
        while rest.len() >= HEAD {
            let len = u32::from_ne_bytes(rest[HEAD - 4..HEAD].try_into().expect("four bytes")) as usize;
            let Some(name) = rest.get(HEAD..HEAD + len) else { break };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            names.push(std::ffi::OsString::from_vec(name.to_vec()).into());
            rest = &rest[HEAD + len..];
        }
    }
    names.sort();
    names.dedup();
    names
}

fn open(pid: u32) -> Option<OwnedFd> {
    // SAFETY: makes a descriptor, which is ours, or an error.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: just made.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor as c_int) })
}

fn start_of(pid: u32) -> Option<u64> {
    start_in(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// What the parent is told, or was.
fn how(process: &Running) -> Option<Ended> {
    const EXIT_CODE: usize = 52;
    let stat = std::fs::read(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    let unasked = field(&stat, EXIT_CODE).filter(|_| start_in(&stat) == Some(process.start) && is_zombie(&stat));
    let status = unasked.map(|status| status as c_int).or_else(|| asked(&process.descriptor))?;
    let (status, signal) =
        (libc::WEXITSTATUS(status), if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 });
    Some(Ended { status: if signal == 0 { status } else { 0 }, signal })
}

/// Of a process that its parent has asked about (ioctl_pidfd(2), PIDFD_GET_INFO with PIDFD_INFO_EXIT, Linux
/// 6.15).
fn asked(descriptor: &OwnedFd) -> Option<c_int> {
    /// `struct pidfd_info` in its first version.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        control_group: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const EXIT: u64 = 1 << 3;
    const GET_INFO: libc::Ioctl = ((3 << 30) | (size_of::<Info>() << 16) | (0xff << 8) | 11) as libc::Ioctl;
    let mut info = Info { mask: EXIT, ..Info::default() };
    // SAFETY: fills the struct, whose size the request names.
    let done = unsafe { libc::ioctl(descriptor.as_raw_fd(), GET_INFO, &mut info) } == 0;
    (done && info.mask & EXIT != 0).then_some(info.exit_code)
}

/// The folder for the files of processes, made if it is not there.
pub(crate) fn folder(directory: &Path) -> io::Result<PathBuf> {
    let folder = directory.join(trace::base::job::PROCESSES);
    std::fs::create_dir_all(&folder)?;
    // That it can be written to is to be known before the program runs.
    tempfile::tempfile_in(&folder).map(drop).or_else(|_| File::open(&folder).map(drop))?;
    Ok(folder)
}
