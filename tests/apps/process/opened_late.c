// Opens the library argv[1] when it runs, and asks for the number of devices from two threads, of which one was there before
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static CUresult (*count)(int *);
static pthread_barrier_t opened;

static void *asks(void *is_opened)
{
    int devices = -1;

    if (is_opened == NULL)
        pthread_barrier_wait(&opened);
    printf("%d\n", count(&devices) == CUDA_SUCCESS ? devices : -1);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t other;
    void *library;

    pthread_barrier_init(&opened, NULL, 2);
    pthread_create(&other, NULL, asks, NULL);
    library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    CUresult (*init)(unsigned) = dlsym(library, "cuInit");
    count = dlsym(library, "cuDeviceGetCount");
    if (init(0) != CUDA_SUCCESS)
        return 1;
    pthread_barrier_wait(&opened);
    pthread_join(other, NULL);
    asks(library);
    return 0;
}
