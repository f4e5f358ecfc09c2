// Jumps out of a driver call, again and again
#include "unwinding.h"
#include <setjmp.h>

static jmp_buf back;

static size_t callback(int threads)
{
    longjmp(back, threads);
}

int main(void)
{
    volatile int round;

    unwinding_start();
    for (round = 0; round < 3; round++) {
        if (!setjmp(back))
            call_with_callback(callback);
        go_on();
    }
    printf("%d rounds\n", round);
    return 0;
}
