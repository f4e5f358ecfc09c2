// A driver that writes files, opens sockets and starts programs as it is loaded: what a stranger's trace might bring it to.
// Everything else is the driver's behind it.
#include <cuda.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <pthread.h>
#include <sys/wait.h>

// Keeps the driver among what this needs.
CUresult (*const needed)(unsigned) = cuInit;

// A descriptor that the test passes on.
enum { INHERITED = 99 };

static void tell(const char *what, long result)
{
    fprintf(stderr, "%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

static void *thread(void *unused)
{
    return unused;
}

__attribute__((constructor)) static void reach_out(void)
{
    pthread_t other;
    pid_t child;
    struct shm_info info;
    struct flock part = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    cpu_set_t cpus;
    struct sockaddr_un name = {.sun_family = AF_UNIX}, file = {AF_UNIX, "socket"};
    char comm[64];
    int packets, pair[2];

    tell("create", open("made", O_WRONLY | O_CREAT, 0600));
    tell("write", open("there", O_WRONLY));
    tell("append", open("there", O_RDWR | O_APPEND));
    tell("truncate", truncate("there", 0));
    tell("empty", open("there", O_RDONLY | O_TRUNC));
    tell("rename", rename("there", "elsewhere"));
    rename("elsewhere", "there");
    tell("chmod", chmod("there", 0777));
    tell("mkdir", mkdir("directory", 0700));
    tell("memory", open("/proc/self/mem", O_RDWR));
    tell("internet", socket(AF_INET, SOCK_STREAM, 0));
    tell("local socket", socket(AF_UNIX, SOCK_STREAM, 0));
    packets = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    tell("socket file", bind(packets, (struct sockaddr *)&file, sizeof file));
    memset(&file, 0, sizeof file);
    file.sun_family = AF_UNIX;
    strcpy(file.sun_path, "nobody");
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        tell("datagram", -1);
    else
        tell("datagram", sendto(pair[0], "", 1, 0, (struct sockaddr *)&file, sizeof file));
    tell("attribute", syscall(463, AT_FDCWD, "there", 0, "user.cutrace", NULL, 0));
    packets = open("there", O_RDONLY);
    tell("flags", ioctl(packets, FS_IOC_SETFLAGS, NULL));
    tell("extended flags", ioctl(packets, FS_IOC_FSSETXATTR, NULL));
    tell("owner", fcntl(packets, F_SETOWN, getppid()));
    tell("signal", fcntl(packets, F_SETSIG, SIGUSR1));
    tell("lock", flock(packets, LOCK_EX));
    tell("lock of a part", fcntl(packets, F_SETLK, &part));
    tell("lock of an open part", fcntl(packets, F_OFD_SETLK, &part));
    tell("disks", syncfs(-1));
    sched_getaffinity(getppid(), sizeof cpus, &cpus);
    tell("affinity", sched_setaffinity(getppid(), sizeof cpus, &cpus));
    tell("segments", syscall(SYS_modify_ldt, 0, NULL, 0));
    tell("window", ioctl(0, TIOCSWINSZ, NULL));
    tell("hidden", prctl(PR_SET_DUMPABLE, 0));
    prctl(PR_SET_DUMPABLE, 1);
    tell("semaphore", semctl(-1, 0, GETVAL));
    tell("message", msgctl(-1, IPC_STAT, NULL));
    tell("inherited", fcntl(INHERITED, F_GETFD));
    tell("kill", kill(getppid(), 0));
    tell("type", ioctl(0, TIOCSTI, ""));
    tell("io_uring", syscall(SYS_io_uring_setup, 1, NULL));
    tell("shared memory", shmctl(0, SHM_INFO, (struct shmid_ds *)&info));
    child = fork();
    if (!child)
        _exit(execl("/bin/true", "true", NULL));
    tell("fork", child);
    if (child > 0)
        waitpid(child, NULL, 0);
    tell("remove", unlink("there"));
    // What a driver needs. It names its threads, and listens for other processes that share its memory.
    tell("read", open("/proc/self/maps", O_RDONLY));
    tell("null", open("/dev/null", O_RDWR));
    tell("memfd", memfd_create("memory", MFD_CLOEXEC));
    snprintf(comm, sizeof comm, "/proc/self/task/%ld/comm", syscall(SYS_gettid));
    sched_getaffinity(0, sizeof cpus, &cpus);
    tell("own affinity", sched_setaffinity(0, sizeof cpus, &cpus));
    tell("comm", open(comm, O_WRONLY | O_CREAT | O_TRUNC, 0666));
    // A driver removes what is at the empty path, and expects to hear that nothing is.
    tell("nothing to remove", unlink("") == 0 || errno != ENOENT ? -1 : 0);
    packets = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    tell("packets", packets);
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "cutrace-reaching-out-%d", getpid());
    tell("bind", bind(packets, (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1)));
    tell("listen", listen(packets, 16));
    tell("thread", -(pthread_create(&other, NULL, thread, NULL) != 0));
    pthread_join(other, NULL);
}
