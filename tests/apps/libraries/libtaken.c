// Preloaded: maps a page at the address that TAKEN names, before anything else can
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((constructor)) static void take(void)
{
    const char *taken = getenv("TAKEN");
    void *at = taken ? (void *)strtoul(taken, NULL, 0) : NULL;

    if (at && mmap(at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
        perror("TAKEN");
}
