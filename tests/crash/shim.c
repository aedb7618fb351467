/* Stands between the broker and the disk (LD_PRELOAD): makes calls fail, and logs what a power cut would leave.
 *
 * FOREBAY_SHIM_DIR    only files below this directory count; -shm files (rebuilt by SQLite) never do
 * SHIM_FAIL_AT=N      the Nth matching call fails (from 1); SHIM_FAIL_COUNT how many in a row (1; 0 = all after)
 * SHIM_FAIL_OP        write | sync | any (write: pwrite, write, ftruncate; sync: fsync, fdatasync)
 * SHIM_ERRNO          EIO | ENOSPC
 * SHIM_ARM=PATH       nothing is counted or failed before this file exists
 * SHIM_FAIL_WHILE=PATH  every matching call fails while this file exists
 * SHIM_SYNC_DELAY_MS  every sync takes so much longer: what does not wait for it shows
 * SHIM_LOG=PATH       the log: one line a record, data follow it
 *
 *   W off len path\n<data>   written (not yet safe)       T len path        truncated
 *   S n path / F n path      sync n began / is complete   U path            unlinked
 *   R from\tto               renamed                      X op path         failed on purpose
 *   I port type pid / A port type pid   packet type (3 PUBLISH of QoS > 0 .. 7 PUBCOMP) read from / written to a peer
 *
 * One lock orders the records: a packet is written to its socket and logged, and a sync is done and logged, before the
 * broker can act on it. So an "A" behind an "F" was sent after that sync was complete.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OP_WRITE = 1, OP_SYNC = 2, FDS = 16384 };
struct stream { unsigned first, length, shift, done, pid; int state; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[PATH_MAX];
static const char *arm, *fail_while;
static size_t dir_length;
static int log_fd = -1, ready, fail_op = OP_WRITE | OP_SYNC, fail_errno = EIO, armed;
static long fail_at, fail_count = 1, calls, syncs, delay_ms;
static struct stream in[FDS], out[FDS];
static unsigned short ports[FDS]; /* 0 not looked at, 1 no TCP socket, else the peer's port */

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("FOREBAY_SHIM_DIR");
    if (!text || !realpath(text, dir))
        return;
    dir_length = strlen(dir);
    if ((text = getenv("SHIM_FAIL_AT"))) fail_at = atol(text);
    if ((text = getenv("SHIM_FAIL_COUNT"))) fail_count = atol(text);
    if ((text = getenv("SHIM_SYNC_DELAY_MS"))) delay_ms = atol(text);
    if ((text = getenv("SHIM_ERRNO")) && !strcmp(text, "ENOSPC")) fail_errno = ENOSPC;
    if ((text = getenv("SHIM_FAIL_OP"))) fail_op = *text == 'w' ? OP_WRITE : *text == 's' ? OP_SYNC : fail_op;
    arm = getenv("SHIM_ARM");
    fail_while = getenv("SHIM_FAIL_WHILE");
    if ((text = getenv("SHIM_LOG")))
        log_fd = syscall(SYS_openat, AT_FDCWD, text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ready = 1;
}

static void emit_data(const void *data, size_t size) {
    while (log_fd >= 0 && size) {
        long put = syscall(SYS_write, log_fd, data, size);
        if (put <= 0) _exit(99); /* a log with a gap would prove nothing */
        data = (const char *)data + put, size -= put;
    }
}

__attribute__((format(printf, 1, 2))) static void emit(const char *format, ...) {
    char line[2 * PATH_MAX];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    emit_data(line, size);
}

static int below(const char *path) {
    size_t size = strlen(path);
    return !strncmp(path, dir, dir_length) && path[dir_length] == '/' && !(size > 4 && !strcmp(path + size - 4, "-shm"));
}

/* The name below dir of an open file or directory, NULL for every other descriptor. */
static const char *tracked(int fd, char *path) {
    char link[40];
    if (!ready) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size <= 0) return NULL;
    path[size] = 0;
    if (!strcmp(path, dir)) return ".";
    return below(path) ? path + dir_length + 1 : NULL;
}

static const char *named(const char *given, char *path) {
    if (!ready) return NULL;
    if (*given == '/') snprintf(path, PATH_MAX, "%s", given);
    else if (getcwd(path, PATH_MAX)) {
        size_t size = strlen(path);
        snprintf(path + size, PATH_MAX - size, "/%s", given);
    }
    return below(path) ? path + dir_length + 1 : NULL;
}

/* With the lock held: must this call fail? */
static int fails(int op, const char *name) {
    if (!(op & fail_op)) return 0;
    int hit = fail_while && !syscall(SYS_faccessat, AT_FDCWD, fail_while, F_OK);
    if (!armed && (!arm || !syscall(SYS_faccessat, AT_FDCWD, arm, F_OK))) armed = 1;
    if (armed) calls++;
    if (armed && fail_at && calls >= fail_at && (!fail_count || calls < fail_at + fail_count)) hit = 1;
    if (hit) emit("X %s %s\n", op == OP_SYNC ? "sync" : "write", name);
    return hit;
}

static ssize_t put(int fd, const void *data, size_t size, off_t offset, const char *name, int has_offset) {
    pthread_mutex_lock(&lock);
    ssize_t done = -1;
    if (fails(OP_WRITE, name)) errno = fail_errno;
    else {
        if (!has_offset)
            offset = fcntl(fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
        done = has_offset ? syscall(SYS_pwrite64, fd, data, size, offset) : syscall(SYS_write, fd, data, size);
        if (done > 0) {
            emit("W %lld %zd %s\n", (long long)offset, done, name);
            emit_data(data, done);
        }
    }
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    char path[PATH_MAX];
    const char *name = tracked(fd, path);
    return name ? put(fd, data, size, offset, name, 1) : syscall(SYS_pwrite64, fd, data, size, offset);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

int ftruncate64(int fd, off64_t size) {
    char path[PATH_MAX];
    const char *name = tracked(fd, path);
    if (!name) return syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    int done = -1;
    if (fails(OP_WRITE, name)) errno = fail_errno;
    else if (!(done = syscall(SYS_ftruncate, fd, size))) emit("T %lld %s\n", (long long)size, name);
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int flush(int fd, long call) {
    char path[PATH_MAX];
    const char *name = tracked(fd, path);
    if (!name) return syscall(call, fd);
    pthread_mutex_lock(&lock);
    int fail = fails(OP_SYNC, name);
    long number = ++syncs;
    if (!fail) emit("S %ld %s\n", number, name);
    pthread_mutex_unlock(&lock);
    if (delay_ms) usleep(delay_ms * 1000);
    if (fail) {
        errno = fail_errno;
        return -1;
    }
    int done = syscall(call, fd);
    pthread_mutex_lock(&lock);
    if (!done) emit("F %ld %s\n", number, name);
    pthread_mutex_unlock(&lock);
    return done;
}
int fsync(int fd) { return flush(fd, SYS_fsync); }
int fdatasync(int fd) { return flush(fd, SYS_fdatasync); }

int unlink(const char *given) {
    char path[PATH_MAX];
    const char *name = named(given, path);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_unlinkat, AT_FDCWD, given, 0);
    if (!done && name) emit("U %s\n", name);
    pthread_mutex_unlock(&lock);
    return done;
}

int rename(const char *from, const char *to) {
    char a[PATH_MAX], b[PATH_MAX];
    const char *old = named(from, a), *fresh = named(to, b);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!done && old && fresh) emit("R %s\t%s\n", old, fresh);
    pthread_mutex_unlock(&lock);
    return done;
}

static int opened(int at, const char *given, int flags, mode_t mode) {
    char path[PATH_MAX];
    const char *name = flags & O_TRUNC && at == AT_FDCWD ? named(given, path) : NULL;
    int fd = syscall(SYS_openat, at, given, flags, mode);
    if (fd >= 0 && name) {
        pthread_mutex_lock(&lock);
        emit("T 0 %s\n", name);
        pthread_mutex_unlock(&lock);
    }
    return fd;
}
#define MODE_OF(flags) mode_t mode = 0; if (flags & (O_CREAT | __O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, int); va_end(a); }
int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE_OF(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE_OF(flags) return opened(at, path, flags | O_LARGEFILE, mode); }

/* Sockets: follow the packets in both directions. */

static unsigned port_of(int fd) {
    if (!ready || log_fd < 0 || fd < 0 || fd >= FDS) return 0;
    if (!ports[fd]) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        ports[fd] = getpeername(fd, (struct sockaddr *)&peer, &size) || peer.sin_family != AF_INET ? 1 : ntohs(peer.sin_port);
    }
    return ports[fd] > 1 ? ports[fd] : 0;
}

static void forget(int fd) {
    if (fd < 0 || fd >= FDS) return;
    pthread_mutex_lock(&lock);
    ports[fd] = 0;
    memset(&in[fd], 0, sizeof in[fd]);
    memset(&out[fd], 0, sizeof out[fd]);
    pthread_mutex_unlock(&lock);
}

static void follow(struct stream *s, char way, unsigned port, const unsigned char *data, size_t size) {
    for (size_t i = 0; i < size;) {
        unsigned char byte = data[i];
        if (s->state == 0) { /* first byte of a packet */
            memset(s, 0, sizeof *s);
            s->first = byte, s->state = 1, i++;
        } else if (s->state == 1) { /* remaining length */
            s->length |= (byte & 127u) << s->shift, s->shift += 7, i++;
            if (byte < 128) s->state = s->length ? 2 : 0;
        } else { /* body: the packet id is its first two bytes, behind the topic in a PUBLISH */
            unsigned type = s->first >> 4, qos = s->first >> 1 & 3, at = 0;
            int wanted = (type >= 4 && type <= 7) || (type == 3 && qos);
            if (wanted && type == 3) {
                if (s->done < 2) {
                    s->shift = s->done ? (s->shift | byte) : (unsigned)byte << 8; /* topic length */
                    s->done++, i++;
                    continue;
                }
                at = 2 + s->shift;
            }
            size_t rest = s->length - s->done, take = rest < size - i ? rest : size - i;
            if (wanted && s->done < at + 2) { /* stop on each byte of the id */
                if (s->done < at) take = take < at - s->done ? take : at - s->done;
                else take = 1, s->pid = s->pid << 8 | byte;
            }
            s->done += take, i += take;
            if (wanted && s->done == at + 2) emit("%c %u %u %u\n", way, port, type, s->pid), s->pid = 0;
            if (s->done == s->length) s->state = 0;
        }
    }
}

ssize_t write(int fd, const void *data, size_t size) {
    unsigned port = port_of(fd);
    if (!port) {
        char path[PATH_MAX];
        const char *name = tracked(fd, path);
        return name ? put(fd, data, size, 0, name, 0) : syscall(SYS_write, fd, data, size);
    }
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_write, fd, data, size);
    int saved = errno;
    if (done > 0) follow(&out[fd], 'A', port, data, done);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    unsigned port = port_of(fd);
    if (!port) return syscall(SYS_writev, fd, parts, count);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_writev, fd, parts, count), left = done;
    int saved = errno;
    for (int i = 0; i < count && left > 0; left -= parts[i].iov_len, i++)
        follow(&out[fd], 'A', port, parts[i].iov_base, (ssize_t)parts[i].iov_len < left ? (ssize_t)parts[i].iov_len : left);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    unsigned port = port_of(fd);
    if (port) pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
    int saved = errno;
    if (port && done > 0) follow(&out[fd], 'A', port, data, done);
    if (port) pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

static ssize_t got(int fd, const void *data, ssize_t done) {
    int saved = errno;
    unsigned port = done > 0 ? port_of(fd) : 0;
    if (port) {
        pthread_mutex_lock(&lock);
        follow(&in[fd], 'I', port, data, done);
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
    return done;
}
ssize_t read(int fd, void *data, size_t size) { return got(fd, data, syscall(SYS_read, fd, data, size)); }
ssize_t recv(int fd, void *data, size_t size, int flags) {
    return got(fd, data, syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL));
}

int accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags) {
    int fresh = syscall(SYS_accept4, fd, peer, size, flags);
    forget(fresh);
    return fresh;
}
int accept(int fd, struct sockaddr *peer, socklen_t *size) { return accept4(fd, peer, size, 0); }
