// The kernel writes into pinned memory by io_uring, in a buffer that was fixed beforehand: no page of the program's tells of it
#include "check.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { N = 1024, BYTES = N * sizeof(int) };

static int ring;
static unsigned *sq_tail, *sq_array, *cq_head;
static struct io_uring_sqe *requests;
static struct io_uring_cqe *answers;
static unsigned sq_mask, cq_mask;

static int begin(void)
{
    struct io_uring_params p = {0};
    char *rings;

    ring = (int)syscall(SYS_io_uring_setup, 2, &p);
    if (ring < 0)
        return 0;
    REQUIRE(p.features & IORING_FEAT_SINGLE_MMAP);
    rings = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof *answers + p.sq_off.array + 4 * p.sq_entries, PROT_READ | PROT_WRITE,
        MAP_SHARED, ring, IORING_OFF_SQ_RING);
    requests = mmap(NULL, p.sq_entries * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    REQUIRE(rings != MAP_FAILED && requests != MAP_FAILED);
    sq_tail = (unsigned *)(rings + p.sq_off.tail), sq_mask = *(unsigned *)(rings + p.sq_off.ring_mask);
    sq_array = (unsigned *)(rings + p.sq_off.array), cq_head = (unsigned *)(rings + p.cq_off.head);
    cq_mask = *(unsigned *)(rings + p.cq_off.ring_mask), answers = (struct io_uring_cqe *)(rings + p.cq_off.cqes);
    return 1;
}

static void read_fixed(int file, void *memory, long at)
{
    unsigned tail = *sq_tail, slot = tail & sq_mask;

    requests[slot] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ_FIXED, .fd = file, .addr = (unsigned long)memory, .len = BYTES, .off = at, .buf_index = 0};
    sq_array[slot] = slot;
    __atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
    REQUIRE(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    REQUIRE(answers[*cq_head & cq_mask].res == BYTES);
    __atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
}

int main(void)
{
    int *pinned, results[N], values[N], n = N, file = memfd_create("values", 0), round, i;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CUdeviceptr memory = allocate(BYTES);
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    memset(pinned, 0, BYTES);
    if (!begin() || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &(struct iovec){pinned, BYTES}, 1)) {
        puts("no io_uring here");
        return 0;
    }
    for (round = 0; round < 3; round++) {
        for (i = 0; i < N; i++)
            values[i] = 1000 * round + i;
        REQUIRE(pwrite(file, values, BYTES, 0) == BYTES);
        read_fixed(file, pinned, 0);
        launch(take, N / 128, 128, (void *[]){&memory, &pinned, &n});
        CHECK(cuMemcpyDtoH(results, memory, BYTES));
        REQUIRE(!memcmp(results, values, BYTES));
    }
    puts("taken");
    return 0;
}
