/* The load of the benchmark: one process that keeps a broker busy and counts what comes out of it.
 *
 *   load run PORT QOS PUBLISHERS SUBSCRIBERS PAYLOAD WINDOW AHEAD WARM_MS RUN_MS BROKER_PID
 *   load relay SUBSCRIBERS          no broker at all: hands bytes on, to show how much the load itself can do
 *
 * All frames of a run have one size, so QoS 0 is counted by bytes. WINDOW: QoS 1 publishes in flight for each publisher.
 * AHEAD: messages sent and not yet received by the slowest subscriber, so that no broker is driven into dropping; at the
 * end every message must have arrived.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { READ = 1 << 18, LIMIT = 512 };
struct peer {
    int fd, publisher, used, blocked;
    unsigned char *block;   /* publisher: its frames, packet ids 1 to 65535 */
    uint64_t sent, bytes;   /* bytes sent (publisher), bytes received */
    unsigned char *part;    /* subscriber at QoS 1: the frame that is not whole yet */
    unsigned char *acks;
    size_t acks_at, acks_end;
};
static struct peer peers[LIMIT];
static unsigned char buffer[READ];
static size_t frame, block_frames;
static int qos, publishers, subscribers;
static uint64_t window, ahead;

static void die(const char *why) {
    fprintf(stderr, "load: %s (%s)\n", why, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu_s(int pid) {
    char path[64], text[1024], *at;
    unsigned long user, kernel;
    if (!pid) return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file) || !(at = strrchr(text, ')'))) die("the broker is gone");
    fclose(file);
    sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    return (double)(user + kernel) / sysconf(_SC_CLK_TCK);
}

static void send_all(int fd, const void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t put = send(fd, (const char *)data + at, size - at, MSG_NOSIGNAL);
        if (put <= 0) die("send");
        at += put;
    }
}

static void read_all(int fd, unsigned char *data, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, data + at, size - at, 0);
        if (got <= 0) die("closed in the handshake");
        at += got;
    }
}

static int dial(int port, const char *id) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned char connect_packet[64] = {0x10, 0, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0}, answer[4];
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connect_packet[13] = strlen(id);
    memcpy(connect_packet + 14, id, strlen(id));
    connect_packet[1] = 12 + strlen(id);
    send_all(fd, connect_packet, 14 + strlen(id));
    read_all(fd, answer, 4);
    if (answer[0] != 0x20 || answer[3]) die("no CONNACK of code 0");
    return fd;
}

static void subscriber(struct peer *peer, int port, int number) {
    char id[24];
    unsigned char packet[] = {0x82, 13, 0, 1, 0, 8, 'l', 'o', 'a', 'd', '/', 't', '/', '+', qos}, answer[5];
    snprintf(id, sizeof id, "sub%03d", number);
    peer->fd = dial(port, id);
    send_all(peer->fd, packet, sizeof packet);
    read_all(peer->fd, answer, 5);
    if (answer[0] != 0x90 || answer[4] != qos) die("no SUBACK of that QoS");
    peer->part = calloc(1, frame);
    peer->acks = malloc(READ);
}

static void publisher(struct peer *peer, int port, int number, size_t payload) {
    char id[24], topic[24];
    snprintf(id, sizeof id, "pub%03d", number);
    snprintf(topic, sizeof topic, "load/t/%03d", number);
    peer->fd = dial(port, id);
    peer->publisher = 1;
    peer->block = malloc(block_frames * frame);
    size_t body = 2 + strlen(topic) + (qos ? 2 : 0) + payload;
    for (size_t i = 0; i < block_frames; i++) {
        unsigned char *at = peer->block + i * frame;
        *at++ = 0x30 | qos << 1;
        if (body > 127) *at++ = (body & 127) | 128, *at++ = body >> 7;
        else *at++ = body;
        *at++ = 0, *at++ = strlen(topic);
        memcpy(at, topic, strlen(topic)), at += strlen(topic);
        if (qos) *at++ = (i + 1) >> 8, *at++ = (i + 1) & 255;
        memset(at, 'x', payload);
    }
}

/* Messages that the slowest subscriber has got. */
static uint64_t received(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < subscribers; i++)
        if (peers[i].bytes / frame < least) least = peers[i].bytes / frame;
    return least;
}

static void feed(struct peer *peer, uint64_t done, uint64_t total_sent, int stopping) {
    uint64_t mine = (peer->sent + frame - 1) / frame, share = 0;
    if (!stopping && total_sent < done + ahead) {
        share = (done + ahead - total_sent + publishers - 1) / publishers;
        if (!qos && share < ahead / publishers / 4) share = 0; /* in runs, not one for one */
        if (qos) {
            uint64_t flying = mine - peer->bytes / 4;
            if (share > window - flying) share = window - flying;
        }
    }
    uint64_t size = (mine + share) * frame - peer->sent;
    while (size) {
        size_t at = peer->sent % (block_frames * frame), chunk = block_frames * frame - at;
        if (chunk > size) chunk = size;
        if (chunk > 1 << 20) chunk = 1 << 20;
        ssize_t put = send(peer->fd, peer->block + at, chunk, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EAGAIN) return;
        if (put <= 0) die("the broker closed a publisher");
        peer->sent += put, size -= put;
    }
}

static void flush_acks(struct peer *peer) {
    while (peer->acks_at < peer->acks_end) {
        ssize_t put = send(peer->fd, peer->acks + peer->acks_at, peer->acks_end - peer->acks_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EAGAIN) return;
        if (put <= 0) die("the broker closed a subscriber");
        peer->acks_at += put;
    }
    peer->acks_at = peer->acks_end = 0;
}

static void acknowledge(struct peer *peer, const unsigned char *data, size_t size, size_t id_at) {
    for (size_t i = 0; i < size;) {
        size_t have = (peer->bytes + i) % frame, take = frame - have;
        const unsigned char *whole = data + i;
        if (have || take > size - i) {
            if (take > size - i) take = size - i;
            memcpy(peer->part + have, data + i, take);
            whole = peer->part;
        }
        i += take;
        if (have + take < frame) return;
        if ((whole[0] & 0xf6) != 0x32) die("not the frame that was sent");
        if (peer->acks_end + 4 > READ) die("the broker does not take acknowledgements");
        unsigned char *ack = peer->acks + peer->acks_end;
        ack[0] = 0x40, ack[1] = 2, ack[2] = whole[id_at], ack[3] = whole[id_at + 1];
        peer->acks_end += 4;
    }
}

static void take(struct peer *peer, size_t id_at) {
    ssize_t got = recv(peer->fd, buffer, READ, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the broker closed a connection");
    if (!peer->publisher) {
        size_t into = peer->bytes % frame;
        if (!qos && (!into || frame - into < (size_t)got) && buffer[into ? frame - into : 0] != 0x30)
            die("not the frame that was sent");
        if (qos) acknowledge(peer, buffer, got, id_at), flush_acks(peer);
    }
    peer->bytes += got;
}

static int run(char **a) {
    int port = atoi(a[0]), pid = atoi(a[9]), count;
    size_t payload = atoi(a[4]);
    qos = atoi(a[1]), publishers = atoi(a[2]), subscribers = atoi(a[3]), window = atoi(a[5]), ahead = atoi(a[6]);
    double warm = atoi(a[7]) / 1e3, length = atoi(a[8]) / 1e3;
    size_t body = 2 + 10 + (qos ? 2 : 0) + payload;
    frame = body + (body > 127 ? 3 : 2);
    block_frames = qos ? 65535 : (1 << 18) / frame;
    count = publishers + subscribers;
    int poll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        if (i < subscribers) subscriber(&peers[i], port, i);
        else publisher(&peers[i], port, i - subscribers, payload);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &peers[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, peers[i].fd, &event);
    }
    double begin = now(), t0 = 0, t1 = 0, cpu0 = 0, cpu1 = 0;
    uint64_t got0 = 0, got1 = 0, done = 0, last = 0;
    double progress = begin;
    for (;;) {
        double t = now();
        uint64_t sent = 0;
        done = received();
        for (int i = subscribers; i < count; i++) sent += (peers[i].sent + frame - 1) / frame;
        if (!t0 && t >= begin + warm) t0 = t, got0 = done, cpu0 = cpu_s(pid);
        if (t0 && !t1 && t >= t0 + length) t1 = t, got1 = done, cpu1 = cpu_s(pid);
        if (done != last) last = done, progress = t;
        if (t1 && done >= sent) break;
        if (t > progress + 10) {
            fprintf(stderr, "load: %llu of %llu messages never came\n", (unsigned long long)(sent - done), (unsigned long long)sent);
            return 2;
        }
        for (int i = subscribers; i < count; i++) feed(&peers[i], done, sent, t1 != 0);
        struct epoll_event events[LIMIT];
        int ready = epoll_wait(poll, events, LIMIT, 100);
        for (int i = 0; i < ready; i++) {
            struct peer *peer = events[i].data.ptr;
            uint64_t before;
            do { /* edge triggered: read until a read comes back short */
                before = peer->bytes;
                take(peer, frame - payload - 2);
            } while (peer->bytes - before == READ);
            if (!peer->publisher && qos) flush_acks(peer);
        }
    }
    double more = 0;
    for (int i = 0; i < subscribers; i++) more += peers[i].bytes % frame;
    printf("{\"seconds\": %.6f, \"messages\": %llu, \"cpu_s\": %.3f, \"total\": %llu, \"stray_bytes\": %.0f}\n", t1 - t0,
           (unsigned long long)((got1 - got0) * subscribers), cpu1 - cpu0, (unsigned long long)done, more);
    return 0;
}

static int relay(int outs) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fds[LIMIT];
    if (bind(listener, (struct sockaddr *)&here, size) || listen(listener, LIMIT)) die("bind");
    getsockname(listener, (struct sockaddr *)&here, &size);
    printf("%d\n", ntohs(here.sin_port));
    fflush(stdout);
    for (int i = 0; i <= outs; i++) {
        if ((fds[i] = accept(listener, NULL, NULL)) < 0) die("accept");
        if (recv(fds[i], buffer, READ, 0) <= 0) die("no CONNECT");
        send_all(fds[i], "\x20\x02\x00\x00", 4);
        if (i == outs) break;
        if (recv(fds[i], buffer, READ, 0) <= 0) die("no SUBSCRIBE");
        send_all(fds[i], "\x90\x03\x00\x01\x00", 5);
    }
    ssize_t got;
    while ((got = recv(fds[outs], buffer, READ, 0)) > 0)
        for (int i = 0; i < outs; i++) send_all(fds[i], buffer, got);
    return 0;
}

int main(int count, char **args) {
    if (count == 12 && !strcmp(args[1], "run")) return run(args + 2);
    if (count == 3 && !strcmp(args[1], "relay")) return relay(atoi(args[2]));
    fprintf(stderr, "load: see the head of load.c\n");
    return 64;
}
