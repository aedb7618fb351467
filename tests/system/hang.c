/* A disk that hangs: while the file named by HANG is there, nothing that must reach the disk returns. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int held(const char *name, int fd) {
    const char *flag = getenv("HANG");
    while (flag && access(flag, F_OK) == 0) usleep(20000);
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fsync(int fd) { return held("fsync", fd); }
int fdatasync(int fd) { return held("fdatasync", fd); }
