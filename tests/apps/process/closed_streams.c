// Runs with its standard streams closed. Writes into the file argv[1] what descriptor the first file it opens gets
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char text[64];
    int first, second, file, length;

    REQUIRE(argc == 2);
    start_driver();
    first = open("/dev/null", O_RDWR);
    second = open("/dev/null", O_RDWR);
    CHECK(cuCtxSynchronize());
    file = open(argv[1], O_CREAT | O_WRONLY | O_TRUNC, 0600);
    length = snprintf(text, sizeof text, "%d %d %d\n", first, second, file);
    return write(file, text, length) == length ? 0 : 1;
}
