//! `--untrusted`: the process gives up what a replay does not need, before it loads the driver.
//!
//! A trace is a program: its kernels run, its code goes through the driver's compiler, its calls reach the driver with
//! arguments that somebody chose. What that may come to beyond the device, Linux is asked to forbid: Landlock, to open for
//! writing anything but the GPU's devices, to make, remove or execute files; seccomp, the network, other processes and
//! whatever else reaches out of this one. Neither can be taken back. No privilege is kept, and none can be gained.

use crate::exit::{FAILED, failure};
use anyhow::Result;
use std::ffi::CString;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// To be called while there is one thread.
pub fn enter() -> Result<()> {
    // SAFETY: no other thread reads variables. The driver's compiler would write to its cache.
    unsafe { std::env::set_var("CUDA_CACHE_DISABLE", "1") };
    drop_capabilities().map_err(|error| missing("privileges cannot be given up", &error))?;
    restrict_files().map_err(|error| {
        missing(
            "Landlock is not there (Linux 5.13 or newer has it, unless it is not enabled or a container forbids it)",
            &error,
        )
    })?;
    restrict_calls().map_err(|error| missing("seccomp filters are forbidden here", &error))
}

/// What whoever started this has open is not for the trace: closed before anything is opened here.
pub fn close_inherited() -> Result<()> {
    let (first, last, none) = (3u32, u32::MAX, 0u32);
    // SAFETY: nothing that is open here is anybody's but standard input, output and error.
    let closed = checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, none) });
    closed.map(|_| ()).map_err(|error| missing("inherited descriptors cannot be closed", &error))
}

/// What the driver, which did not start, may have missed.
pub fn hint() -> &'static str {
    let is_there = |path: &str| std::path::Path::new(path).exists();
    if is_there("/proc/driver/nvidia/version") && !is_there("/dev/nvidia-uvm") {
        "; /dev/nvidia-uvm is not there, and with --untrusted the driver cannot start nvidia-modprobe to make it: \
         run nvidia-modprobe -u -c 0, or any CUDA program, first"
    } else {
        "; with --untrusted it may use its devices only: without it more may work"
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
        // Bounding and ambient sets: without the right to, they cannot be used either once no_new_privs is set.
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
    pub const EXECUTE: u64 = 1 << 0;
    pub const WRITE_FILE: u64 = 1 << 1;
    /// To remove and make files of all kinds, from REMOVE_DIR to MAKE_SYM.
    pub const CHANGE_DIRECTORIES: u64 = 0b1_1111_1111 << 4;
    /// By the version that has them first.
    pub const LATER: [(i64, u64); 3] = [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)];
    const REFER: u64 = 1 << 13;
    pub const TRUNCATE: u64 = 1 << 14;
    pub const IOCTL_DEV: u64 = 1 << 15;
    /// To bind and connect TCP sockets, from version 4 on.
    pub const NET: u64 = 0b11;
    /// To abstract sockets and by signals, out of the sandbox, from version 6 on.
    pub const SCOPES: u64 = 0b11;
    pub const VERSION: u32 = 1;
    pub const PATH_BENEATH: u32 = 1;

    #[repr(C, packed)]
    pub struct PathBeneath {
        pub allowed: u64,
        pub parent: i32,
    }
}

/// The driver writes names to comm of its threads, also of those to come. What else can be written there is this process.
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

/// Calls that reach beyond this process, or change files without opening them.
const REFUSED: &[libc::c_long] = &[
    // The network, and other processes by sockets.
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Other programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_shmget,
    // The chunks of recordings are in such memory.
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Files by their names, and what Landlock says nothing of. Landlock alone refuses unlink: driver 580 removes an empty
    // path before it listens at an abstract name, and takes an answer other than ENOENT for a failure.
    libc::SYS_creat,
    libc::SYS_truncate,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_utimensat,
    libc::SYS_futimesat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_open_by_handle_at,
    // The system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_personality,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];

/// Calls whose arguments lie in memory, or that make others unseen: callers know how to do without them.
const UNKNOWN: &[libc::c_long] = &[libc::SYS_clone3, libc::SYS_openat2, libc::SYS_io_uring_setup];
/// The first number that this list was not made for.
const BEYOND: u32 = 463;

/// Commands of fcntl by which a file's events signal another process.
const SIGNALS: &[i32] = &[libc::F_SETOWN, F_SETOWN_EX, F_SETSIG, libc::F_SETLEASE];
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
/// Requests of ioctl: to type on the terminal, and the same as F_SETOWN (FIOSETOWN, SIOCSPGRP).
const CONTROLS: &[u64] = &[libc::TIOCSTI, libc::TIOCLINUX, 0x8901, 0x8902];
/// Types of the requests that change a file which is open to be read: attributes, versions, what a file system adds
/// (of ext4 and all, XFS, ext2, Btrfs, F2FS). The driver's are of others.
const FILE_SYSTEMS: &[u8] = &[b'f', b'X', b'v', 0x94, 0xf5];

/// Classic BPF: each part ends in a verdict, or goes on to the next.
struct Filter(Vec<libc::sock_filter>);

const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const NUMBER: usize = offset_of!(libc::seccomp_data, nr);
const JUMP: u32 = libc::BPF_JMP | libc::BPF_K;

impl Filter {
    fn step(&mut self, code: u32, k: u32, met: u8, unmet: u8) {
        self.0.push(libc::sock_filter { code: code as u16, jt: met, jf: unmet, k });
    }

    fn load(&mut self, offset: usize) {
        self.step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset as u32, 0, 0);
    }

    fn verdict(&mut self, verdict: u32) {
        self.step(libc::BPF_RET | libc::BPF_K, verdict, 0, 0);
    }

    /// Of this call, those whose lower half of an argument has this value under this mask.
    fn refuse_those(&mut self, number: libc::c_long, argument: usize, mask: u32, value: u32) {
        self.step(JUMP | libc::BPF_JEQ, number as u32, 0, 5);
        self.load(offset_of!(libc::seccomp_data, args) + argument * size_of::<u64>());
        self.step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0);
        self.step(JUMP | libc::BPF_JEQ, value, 0, 1);
        self.verdict(EPERM);
        self.load(NUMBER);
    }

    /// Of this call, all but those whose lower halves of arguments have these values under these masks.
    fn allow_only(&mut self, number: libc::c_long, arguments: &[(usize, u32, u32)]) {
        let steps = arguments.len() as u8 * 4;
        self.step(JUMP | libc::BPF_JEQ, number as u32, 0, steps + 1);
        for (argument, mask, value) in arguments {
            self.load(offset_of!(libc::seccomp_data, args) + argument * size_of::<u64>());
            self.step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, *mask, 0, 0);
            self.step(JUMP | libc::BPF_JEQ, *value, 1, 0);
            self.verdict(EPERM);
        }
        self.verdict(libc::SECCOMP_RET_ALLOW);
    }

    fn refuse(&mut self, number: libc::c_long, verdict: u32) {
        self.step(JUMP | libc::BPF_JEQ, number as u32, 0, 1);
        self.verdict(verdict);
    }

    /// Of this call, what `refuses` of the lower half of an argument: if met, it is refused, else allowed.
    fn refuse_if(&mut self, number: libc::c_long, argument: usize, (test, value): (u32, u32), refuses_met: bool) {
        self.step(JUMP | libc::BPF_JEQ, number as u32, 0, 4);
        self.load(offset_of!(libc::seccomp_data, args) + argument * size_of::<u64>());
        self.step(JUMP | test, value, u8::from(!refuses_met), u8::from(refuses_met));
        self.verdict(EPERM);
        self.verdict(libc::SECCOMP_RET_ALLOW);
    }

    fn new() -> Filter {
        /// AUDIT_ARCH_X86_64
        const X86_64: u32 = 0xc000_003e;
        const NAMELESS: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
        /// What socket takes of a type, which flags are added to: SOCK_TYPE_MASK of linux/net.h.
        const TYPE: u32 = 0xf;
        let own = std::process::id();
        let mut filter = Filter(Vec::new());
        filter.load(offset_of!(libc::seccomp_data, arch));
        filter.step(JUMP | libc::BPF_JEQ, X86_64, 1, 0);
        filter.verdict(libc::SECCOMP_RET_KILL_PROCESS);
        filter.load(NUMBER);
        filter.step(JUMP | libc::BPF_JGE, BEYOND, 0, 1);
        filter.verdict(ENOSYS);
        UNKNOWN.iter().for_each(|number| filter.refuse(*number, ENOSYS));
        REFUSED.iter().for_each(|number| filter.refuse(*number, EPERM));
        // Landlock refuses to make a file that is not there, and to open one for writing. Before its version 3 it lets
        // those be emptied that are opened for less.
        let emptied = [libc::O_RDONLY, libc::O_ACCMODE].map(|mode| (libc::O_TRUNC | mode) as u32);
        for (call, flags) in [(libc::SYS_open, 1), (libc::SYS_openat, 2)] {
            filter.refuse_those(call, flags, NAMELESS, NAMELESS);
            for emptied in emptied {
                filter.refuse_those(call, flags, (libc::O_TRUNC | libc::O_ACCMODE) as u32, emptied);
            }
        }
        // The driver listens at an abstract name, or it does not start: Landlock refuses to bind to one in a directory,
        // and nobody is accepted. It never connects.
        let (local, packets) = (libc::AF_UNIX as u32, libc::SOCK_SEQPACKET as u32);
        filter.allow_only(libc::SYS_socket, &[(0, u32::MAX, local), (1, TYPE, packets)]);
        // A pair of sockets is between threads, but datagrams go to whatever name they bear.
        filter.refuse_those(libc::SYS_socketpair, 1, TYPE, libc::SOCK_DGRAM as u32);
        filter.refuse_those(libc::SYS_socketpair, 1, TYPE, libc::SOCK_RAW as u32);
        filter.allow_only(libc::SYS_sendto, &[(5, u32::MAX, 0)]);
        // A thread may be made, a process not.
        filter.refuse_if(libc::SYS_clone, 0, (libc::BPF_JSET, libc::CLONE_THREAD as u32), false);
        filter.refuse_if(libc::SYS_tgkill, 0, (libc::BPF_JEQ, own), false);
        filter.refuse_if(libc::SYS_prlimit64, 0, (libc::BPF_JEQ, 0), false);
        for refused in SIGNALS {
            filter.refuse_those(libc::SYS_fcntl, 1, u32::MAX, *refused as u32);
        }
        for refused in CONTROLS {
            filter.refuse_those(libc::SYS_ioctl, 1, u32::MAX, *refused as u32);
        }
        for refused in FILE_SYSTEMS {
            filter.refuse_those(libc::SYS_ioctl, 1, 0xff00, u32::from(*refused) << 8);
        }
        filter.verdict(libc::SECCOMP_RET_ALLOW);
        filter
    }
}

fn restrict_calls() -> io::Result<()> {
    let mut filter = Filter::new();
    let program = libc::sock_fprog { len: filter.0.len() as u16, filter: filter.0.as_mut_ptr() };
    let (set, all) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: a program that outlives the call, which copies it.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, set, all, &raw const program) }).map(|_| ())
}
