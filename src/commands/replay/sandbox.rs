//! `--untrusted`: the process drops all rights that a replay does not need, before it loads the driver.
//!
//! A trace is a program: its kernels run, the driver's compiler compiles its code, and its calls reach the
//! driver with arguments that somebody chose. To contain it beyond the device, Landlock forbids the process
//! to open anything but the GPU's devices for writing, and to create, remove or execute files; seccomp
//! forbids the network, other processes and everything else outside this one. Neither can be undone. No
//! privilege is kept, and none can be gained. A child process watches the memory and the number of threads.

mod limits;
mod seccomp;

use crate::terminal::exit::{FAILED, failure};
use anyhow::Result;
use limits::Limits;
use seccomp::Filter;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// For a trace of so many threads. To be called while there is one thread.
pub(super) fn enter(threads: usize) -> Result<()> {
    let watched = Limits::of(threads).and_then(Limits::watch);
    watched.map_err(|error| missing("cannot start the process that checks the limits", &error))?;
    // A crash would have Linux write a file.
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a struct of ours.
    let has_no_dumps = checked(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) }.into());
    has_no_dumps.map_err(|error| missing("cannot disable core dumps", &error))?;
    // SAFETY: no other thread reads variables. The driver's compiler would write to its cache.
    unsafe { std::env::set_var("CUDA_CACHE_DISABLE", "1") };
    drop_capabilities().map_err(|error| missing("cannot drop privileges", &error))?;
    restrict_files().map_err(|error| {
        missing("Landlock is not available (it needs Linux 5.13, enabled, and not forbidden by a container)", &error)
    })?;
    restrict_calls().map_err(|error| missing("seccomp filters are not allowed", &error))
}

/// What whoever started this has open is not for the trace: closed before anything is opened here.
pub(super) fn close_inherited() -> Result<()> {
    let (first, last, none) = (3u32, u32::MAX, 0u32);
    // SAFETY: nothing that is open here is anybody's but standard input, output and error.
    let closed = checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, none) });
    closed.map(|_| ()).map_err(|error| missing("cannot close inherited descriptors", &error))
}

/// What the driver, which did not start, may have missed.
pub(super) fn hint() -> &'static str {
    let is_there = |path: &str| std::path::Path::new(path).exists();
    if is_there("/proc/driver/nvidia/version") && !is_there("/dev/nvidia-uvm") {
        "; /dev/nvidia-uvm does not exist, and with --untrusted the driver cannot start nvidia-modprobe to create it: \
         run nvidia-modprobe -u -c 0, or any CUDA program, first"
    } else {
        "; --untrusted restricts the driver to its devices: it may work without"
    }
}

fn missing(what: &str, error: &io::Error) -> anyhow::Error {
    failure(FAILED, format_args!("--untrusted: {what}: {error}; nothing was replayed"))
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn drop_capabilities() -> io::Result<()> {
    /// _LINUX_CAPABILITY_VERSION_3, and this thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: plain values, and two structs of the sizes that this version has.
    unsafe {
        // Bounding and ambient sets: without the right to, they cannot be used either once no_new_privs is
        // set.
        for capability in 0..64 {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        checked(libc::syscall(libc::SYS_capset, HEADER.as_ptr(), none.as_ptr()))?;
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
    }
    Ok(())
}

/// Landlock's, of linux/landlock.h.
mod landlock {
    pub(super) const EXECUTE: u64 = 1 << 0;
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    /// To remove and make files of all kinds, from REMOVE_DIR to MAKE_SYM.
    pub(super) const CHANGE_DIRECTORIES: u64 = 0b1_1111_1111 << 4;
    /// By the version that has them first.
    pub(super) const LATER: [(i64, u64); 3] = [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)];
    const REFER: u64 = 1 << 13;
    pub(super) const TRUNCATE: u64 = 1 << 14;
    pub(super) const IOCTL_DEV: u64 = 1 << 15;
    /// To bind and connect TCP sockets, from version 4 on.
    pub(super) const NET: u64 = 0b11;
    /// To abstract sockets and by signals, out of the sandbox, from version 6 on.
    pub(super) const SCOPES: u64 = 0b11;
    pub(super) const VERSION: u32 = 1;
    pub(super) const PATH_BENEATH: u32 = 1;

    #[repr(C, packed)]
    pub(super) struct PathBeneath {
        pub allowed: u64,
        pub parent: i32,
    }
}

/// The driver writes names to comm of its threads, also of those to come. What else can be written there is
/// this process.
const THREADS: &str = "/proc/self/task";

fn restrict_files() -> io::Result<()> {
    use landlock::*;
    let none = std::ptr::null::<u64>();
    // SAFETY: asks for the version.
    let version = checked(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) })?;
    let later = LATER.iter().filter(|(since, _)| *since <= version).map(|(_, access)| access);
    let files = later.fold(EXECUTE | WRITE_FILE | CHANGE_DIRECTORIES, |all, access| all | access);
    let (attributes, size) = (
        [files, NET, SCOPES],
        if version < 4 {
            8
        } else if version < 6 {
            16
        } else {
            24usize
        },
    );
    // SAFETY: a struct of as many bytes as this version has.
    let rules = unsafe {
        let rules = checked(libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), size, 0))?;
        OwnedFd::from_raw_fd(rules as i32)
    };
    let devices = devices().into_iter().map(|device| (device, WRITE_FILE | IOCTL_DEV));
    for (path, allowed) in devices.chain([(THREADS.into(), WRITE_FILE | TRUNCATE)]) {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a path with its NUL; the descriptor is new.
        let opened = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if opened < 0 {
            continue;
        }
        // SAFETY: just opened, owned by nobody else.
        let opened = unsafe { OwnedFd::from_raw_fd(opened) };
        let beneath = PathBeneath { allowed: files & allowed, parent: opened.as_raw_fd() };
        // SAFETY: a rule set, and a struct that outlives the call.
        checked(unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), PATH_BENEATH, &raw const beneath, 0)
        })?;
        if path.as_bytes() == THREADS.as_bytes() {
            // A rule is of an inode, which /proc makes anew once nobody holds it.
            std::mem::forget(opened);
        }
    }
    // SAFETY: a rule set of ours.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) }).map(|_| ())
}

/// What a driver writes to: the GPUs, on WSL its door to them, and what is nowhere.
fn devices() -> Vec<PathBuf> {
    let listed = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_gpu = |name: &[u8]| name.starts_with(b"nvidia") || matches!(name, b"dxg" | b"null" | b"zero");
    listed.filter(|entry| is_gpu(entry.file_name().as_bytes())).map(|entry| entry.path()).collect()
}

fn restrict_calls() -> io::Result<()> {
    let mut filter = Filter::new();
    let program = libc::sock_fprog { len: filter.0.len() as u16, filter: filter.0.as_mut_ptr() };
    let (set, all) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: a program that outlives the call, which copies it.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, set, all, &raw const program) }).map(|_| ())
}
