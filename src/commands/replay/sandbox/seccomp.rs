//! The filter of system calls: it forbids the network, other processes and everything else outside this one.

use std::mem::offset_of;

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
    libc::SYS_process_mrelease,
    libc::SYS_get_robust_list,
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
    // Files by their names, and what Landlock says nothing of. Landlock alone refuses unlink: driver 580
    // removes an empty path before it listens at an abstract name, and takes an answer other than ENOENT for
    // a failure.
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
    // Whoever locks the same file waits for its lock, and whoever writes waits for the disks.
    libc::SYS_flock,
    libc::SYS_sync,
    libc::SYS_syncfs,
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
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_modify_ldt,
    libc::SYS_memfd_secret,
    libc::SYS_syslog,
    libc::SYS_personality,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];

/// Calls whose arguments lie in memory, or that make others unseen: callers know how to do without them.
const UNKNOWN: &[libc::c_long] = &[libc::SYS_clone3, libc::SYS_openat2, libc::SYS_io_uring_setup];
/// The first number that this list was not made for.
const BEYOND: u32 = 463;

/// Commands of fcntl by which a file's events signal another process, or by which another waits for a lock.
const FILE_COMMANDS: &[i32] = &[
    libc::F_SETOWN,
    F_SETOWN_EX,
    F_SETSIG,
    libc::F_SETLEASE,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
/// Requests of ioctl that are the same as F_SETOWN (FIOSETOWN, SIOCSPGRP).
const CONTROLS: &[u64] = &[0x8901, 0x8902];
/// The type of a terminal's requests, and those that change nothing which others have of it: the shell uses the
/// same terminal.
const TERMINAL: u32 = (b'T' as u32) << 8;
const TERMINAL_READS: &[u64] = &[
    libc::TCGETS,
    libc::TCGETS2,
    libc::TIOCGWINSZ,
    libc::TIOCGPGRP,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
];
/// Commands of prctl: to hide from whoever looks at the process's limits, and to share a core with another one.
const PROCESS_COMMANDS: &[i32] = &[libc::PR_SET_DUMPABLE, PR_SCHED_CORE];
const PR_SCHED_CORE: i32 = 62;
/// Types of the requests that change a file which is open to be read: attributes, versions, what a file
/// system adds (of ext4 and all, XFS, ext2, Btrfs, F2FS). The driver's are of others.
const FILE_SYSTEMS: &[u8] = &[b'f', b'X', b'v', 0x94, 0xf5];

/// Classic BPF: each part ends in a verdict, or continues with the next.
pub(super) struct Filter(pub Vec<libc::sock_filter>);

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
        self.decide_those(number, argument, (mask, value), EPERM);
    }

    /// Of this call, those whose lower half of an argument is this value, whatever follows.
    fn allow_those(&mut self, number: libc::c_long, argument: usize, value: u32) {
        self.decide_those(number, argument, (u32::MAX, value), libc::SECCOMP_RET_ALLOW);
    }

    fn decide_those(&mut self, number: libc::c_long, argument: usize, (mask, value): (u32, u32), verdict: u32) {
        self.step(JUMP | libc::BPF_JEQ, number as u32, 0, 5);
        self.load(offset_of!(libc::seccomp_data, args) + argument * size_of::<u64>());
        self.step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0);
        self.step(JUMP | libc::BPF_JEQ, value, 0, 1);
        self.verdict(verdict);
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

    pub(super) fn new() -> Filter {
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
        // Landlock refuses to make a file that is not there, and to open one for writing. Before its version
        // 3 it lets those be emptied that are opened for less.
        let emptied = [libc::O_RDONLY, libc::O_ACCMODE].map(|mode| (libc::O_TRUNC | mode) as u32);
        for (call, flags) in [(libc::SYS_open, 1), (libc::SYS_openat, 2)] {
            filter.refuse_those(call, flags, NAMELESS, NAMELESS);
            for emptied in emptied {
                filter.refuse_those(call, flags, (libc::O_TRUNC | libc::O_ACCMODE) as u32, emptied);
            }
        }
        // The driver listens at an abstract name, or it does not start: Landlock refuses to bind to one in a
        // directory, and nobody is accepted. It never connects.
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
        // 0 is the thread itself; by its id a thread of another process could be meant.
        [0, own].into_iter().for_each(|pid| filter.allow_those(libc::SYS_sched_setaffinity, 0, pid));
        filter.refuse(libc::SYS_sched_setaffinity, EPERM);
        for refused in PROCESS_COMMANDS {
            filter.refuse_those(libc::SYS_prctl, 0, u32::MAX, *refused as u32);
        }
        for refused in FILE_COMMANDS {
            filter.refuse_those(libc::SYS_fcntl, 1, u32::MAX, *refused as u32);
        }
        for allowed in TERMINAL_READS {
            filter.allow_those(libc::SYS_ioctl, 1, *allowed as u32);
        }
        filter.refuse_those(libc::SYS_ioctl, 1, 0xff00, TERMINAL);
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
