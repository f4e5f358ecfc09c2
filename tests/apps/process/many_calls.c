// argv[1] calls, then a line
#include "check.h"

int main(int argc, char **argv)
{
    CUcontext context = start_driver();
    int calls = argc == 2 ? atoi(argv[1]) : 0;

    while (calls--) {
        call_once(context);
    }
    printf("done\n");
    return 0;
}
