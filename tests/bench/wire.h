/* What the load needs of MQTT 3.1.1, of sockets and of /proc. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void die(const char *why) {
    fprintf(stderr, "load: %s (%s)\n", why, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* CPU seconds, user and system, of a process and its threads; 0 = no process. */
static double cpu_s(int pid) {
    clockid_t clock;
    struct timespec t;
    if (!pid) return 0;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) die("the broker is gone");
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Bytes that a process has given to the disk. */
static double written(int pid) {
    char path[64], line[128];
    double bytes = 0;
    if (!pid) return 0;
    snprintf(path, sizeof path, "/proc/%d/io", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "write_bytes: %lf", &bytes);
    if (file) fclose(file);
    return bytes;
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

/* CONNECT without keep alive, and CONNACK. */
static int dial(int port, const char *id, int persistent) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned char packet[64] = {0x10, 0, 0, 4, 'M', 'Q', 'T', 'T', 4, persistent ? 0 : 2, 0, 0, 0}, answer[4];
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    packet[13] = strlen(id);
    memcpy(packet + 14, id, strlen(id));
    packet[1] = 12 + strlen(id);
    send_all(fd, packet, 14 + strlen(id));
    read_all(fd, answer, 4);
    if (answer[0] != 0x20 || answer[3]) die("no CONNACK of code 0");
    return fd;
}

/* Where messages go: the root, and the number of the publisher. */
struct form {
    const char *topic, *filter;
    int extra; /* characters of the topic beside the root */
};
static const struct form plain = {"%s/t/%03d", "%s/t/+", 6};
static const struct form ndata = {"spBv1.0/%s/NDATA/%03d", "spBv1.0/%s/NDATA/+", 18};
static const struct form *form = &plain;

static void subscribe(int fd, const char *root, int qos) {
    unsigned char packet[64] = {0x82, 0, 0, 1, 0}, answer[5];
    size_t size = snprintf((char *)packet + 6, 48, form->filter, root);
    packet[1] = 5 + size, packet[5] = size, packet[6 + size] = qos;
    send_all(fd, packet, 7 + size);
    read_all(fd, answer, 5);
    if (answer[0] != 0x90 || answer[4] != qos) die("no SUBACK of that QoS");
}

/* A Sparkplug payload of 30 metrics by alias; seq has two bytes whatever it is. */
enum { METRICS = 30, NDATA_BYTES = 7 + METRICS * 8 + 3 };
static void fill_ndata(unsigned char *at, int seq) {
    memcpy(at, "\x08\x80\xd0\x95\xff\xbc\x31", 7), at += 7;
    for (int i = 0; i < METRICS; i++, at += 8) memcpy(at, "\x12\x06\x10\x00\x50\x81\x82\x03", 8), at[3] = i;
    *at++ = 0x18, *at++ = (seq & 127) | 128, *at = seq >> 7 & 1;
}

/* An NBIRTH of seq 255: the first NDATA has 0. */
static void give_birth(int fd, const char *root, int number) {
    unsigned char packet[64] = {0x30, 0, 0};
    size_t length = snprintf((char *)packet + 4, 52, "spBv1.0/%s/NBIRTH/%03d", root, number);
    packet[1] = 2 + length + 5, packet[3] = length;
    memcpy(packet + 4 + length, "\x08\x01\x18\xff\x01", 5);
    send_all(fd, packet, 4 + length + 5);
}

/* COUNT frames of one size from publisher NUMBER, packet ids from 1. */
static unsigned char *frames_of(const char *root, int number, int qos, size_t payload, size_t frame, size_t count) {
    char topic[48];
    size_t length = snprintf(topic, sizeof topic, form->topic, root, number), body = 2 + length + (qos ? 2 : 0) + payload;
    unsigned char *block = malloc(count * frame), *at = block;
    for (size_t i = 0; i < count; i++, at += payload) {
        *at++ = 0x30 | qos << 1;
        if (body > 127) *at++ = (body & 127) | 128, *at++ = body >> 7;
        else *at++ = body;
        *at++ = 0, *at++ = length;
        memcpy(at, topic, length), at += length;
        if (qos) *at++ = (i + 1) >> 8, *at++ = (i + 1) & 255;
        if (form == &ndata) fill_ndata(at, i & 255);
        else memset(at, 'x', payload);
    }
    return block;
}

/* Microseconds, one bucket each; the last takes all that is longer. */
enum { BUCKETS = 1 << 20 };
struct latencies {
    uint32_t bucket[BUCKETS];
    uint64_t count;
};

static void note(struct latencies *all, double seconds) {
    double us = seconds * 1e6;
    all->bucket[us < 0 ? 0 : us >= BUCKETS ? BUCKETS - 1 : (int)us]++;
    all->count++;
}

static int percentile(const struct latencies *all, double percent) {
    uint64_t seen = 0, wanted = all->count * percent / 100;
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += all->bucket[i]) > wanted) return i;
    return 0;
}
