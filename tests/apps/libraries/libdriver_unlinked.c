// A driver library whose file is gone as soon as it has been loaded, as while a driver is being replaced: the process that
// loaded it goes on, those that are started after it find none.
#include <dlfcn.h>
#include <unistd.h>

__attribute__((constructor)) static void unlink_itself(void) {
    Dl_info found;
    if (dladdr((void *)unlink_itself, &found)) unlink(found.dli_fname);
}
