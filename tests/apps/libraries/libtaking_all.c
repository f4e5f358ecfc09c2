// A driver that takes memory or threads as it is loaded, for as long as it gets any ($TAKES): what a stranger's trace might
// bring it to. Everything else is the driver's behind it.
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Keeps the driver among what this needs.
CUresult (*const needed)(unsigned) = cuInit;

// Bytes, of which no test takes so many that a machine would miss them.
enum { PIECE = 16 << 20, MOST = 768 << 20, THREADS = 1500 };

static void *thread(void *unused)
{
    usleep(2000000);
    return unused;
}

static void take_memory(size_t most)
{
    size_t taken;

    for (taken = 0; taken < most; taken += PIECE)
        memset(mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, PIECE);
}

static void take_files(void)
{
    static char piece[PIECE];
    size_t taken;
    int file;

    for (taken = 0; taken < MOST; taken += PIECE) {
        file = memfd_create("taken", 0);
        if (file < 0 || write(file, piece, PIECE) != PIECE)
            abort();
    }
}

static void take_threads(void)
{
    pthread_attr_t small;
    pthread_t other;
    int taken;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (taken = 0; taken < THREADS; taken++)
        if (!pthread_create(&other, &small, thread, NULL))
            pthread_detach(other);
}

__attribute__((constructor)) static void take(void)
{
    const char *takes = getenv("TAKES");

    if (!takes)
        return;
    if (!strcmp(takes, "little"))
        return take_memory(PIECE);
    if (!strcmp(takes, "memory"))
        take_memory(MOST);
    else if (!strcmp(takes, "files"))
        take_files();
    else
        take_threads();
    usleep(1500000);
}
