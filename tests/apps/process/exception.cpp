// A C++ exception passes through a driver call
#include "unwinding.h"

static size_t callback(int)
{
    throw 42;
}

int main()
{
    unwinding_start();
    try {
        call_with_callback(callback);
    } catch (int thrown) {
        printf("caught %d\n", thrown);
    }
    go_on();
    return 0;
}
