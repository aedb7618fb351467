/* The load of the benchmark: one process that keeps a broker busy and counts what comes out of it.
 *
 *   load run KEY=VALUE ...      the keys are in main()
 *   load idle port=N connections=N subscriptions=0|1      opens them, prints "ready", holds them until its standard input ends
 *   load logins KEY=VALUE ...   so many connections/s (rate) for run_ms that each send what the standard input has, and are
 *                               counted by the reason code of their CONNACK
 *   load relay SUBSCRIBERS      no broker at all: hands bytes on, to show how much the load itself can do
 *
 * All frames of a run have one size, so QoS 0 at full speed is counted by bytes. window: QoS 1 publishes in flight for
 * each publisher. ahead: messages sent and not yet received by the slowest fast collector, so that no broker is driven
 * into dropping; at the end every message must have arrived and every publish must be acknowledged. With rate the load
 * is paced: it spins (calm: it sleeps until 50 us before the next message or until something comes, so that another on its
 * core gets on), and latencies count from the time a message was due. With order each publisher counts its messages, and
 * every one must reach the collectors, once and in order.
 */
#define _GNU_SOURCE
#include "wire.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { READ = 1 << 18, LIMIT = 512, MARKS = 1024 };
enum kind { FAST, SLOW, PUBLISHER };
struct peer {
    int fd, kind, number;
    unsigned char *block;             /* publisher: its frames, each with a packet id of its own */
    uint64_t planned, sent, bytes;    /* frames to send, bytes sent, bytes received */
    unsigned char *part;              /* collector: the frame that is not whole yet */
    uint64_t *next;                   /* collector, with order: the next message of each publisher */
    unsigned char *acks;
    size_t acks_at, acks_end;
    struct { double due; size_t end; } mark[MARKS]; /* slow collector: acks up to end leave when due; a ring */
    unsigned mark_at, mark_end;
};
static struct peer peers[LIMIT];
static unsigned char buffer[READ];
static struct latencies delivery, puback;
static size_t frame, id_at, block_frames;
static double port, pid, qos = 1, publishers, collectors, slow, away, persistent, resume, payload = 64, window = 20;
static double sparkplug, order, first_number, calm, ahead = 800, rate, warm_ms = 300, run_ms = 1000, messages;
static double slow_ms = 100, connections, subscriptions, answer, props;
static const char *name = "load";
static double begin, t0, t1;

static uint64_t received(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < collectors; i++)
        if (peers[i].bytes / frame < least) least = peers[i].bytes / frame;
    return collectors ? least : 0;
}

static double due_at(const struct peer *peer, uint64_t index) {
    return begin + (index * publishers + peer->number) / rate;
}

/* Frames that this publisher may send on top of what it has planned. */
static uint64_t share_of(struct peer *peer, double t, uint64_t done, uint64_t total) {
    double share = 1e9;
    if (messages && (share = ceil((messages - total) / publishers)) <= 0) return 0;
    if (rate) {
        double due = floor((t - begin) * rate / publishers - peer->number / publishers) + 1 - peer->planned;
        return due < 0 ? 0 : due < share ? due : share;
    }
    if (collectors) {
        double room = ceil((double)(done + ahead - total) / publishers);
        if (total >= done + ahead) room = 0;
        if (!qos && room < ahead / publishers / 4) room = 0; /* in runs, not one for one */
        if (room < share) share = room;
    }
    if (qos && share > window - (peer->planned - peer->bytes / 4)) share = window - (peer->planned - peer->bytes / 4);
    return share;
}

static void feed(struct peer *peer, double t, uint64_t done, uint64_t *total, int stopping) {
    uint64_t share = stopping ? 0 : share_of(peer, t, done, *total);
    for (uint64_t i = 0; (rate || order) && i < share; i++) {
        uint64_t index = peer->planned + i;
        unsigned char *stamp = peer->block + index % block_frames * frame + frame - (size_t)payload;
        double due = rate ? due_at(peer, index) : 0;
        memcpy(stamp, &due, sizeof due);
        if (order) memcpy(stamp + sizeof due, &index, sizeof index);
    }
    peer->planned += share, *total += share;
    uint64_t size = peer->planned * frame - peer->sent;
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

static void flush_acks(struct peer *peer, double t) {
    size_t end = peer->acks_end;
    if (peer->kind == SLOW) {
        while (peer->mark_at != peer->mark_end && peer->mark[peer->mark_at % MARKS].due <= t) peer->mark_at++;
        end = peer->mark_at == 0 ? 0 : peer->mark[(peer->mark_at - 1) % MARKS].end;
    }
    while (peer->acks_at < end) {
        ssize_t put = send(peer->fd, peer->acks + peer->acks_at, end - peer->acks_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EAGAIN) return;
        if (put <= 0) die("the broker closed a collector");
        peer->acks_at += put;
    }
    if (peer->acks_at == peer->acks_end) peer->acks_at = peer->acks_end = peer->mark_at = peer->mark_end = 0;
}

/* Walk the frames of what was read: acknowledge them, note how long they took. */
static void walk(struct peer *peer, const unsigned char *data, size_t size, double t) {
    for (size_t i = 0; i < size;) {
        size_t have = (peer->bytes + i) % frame, take = frame - have;
        const unsigned char *whole = data + i;
        if (have || take > size - i) {
            if (take > size - i) take = size - i;
            memcpy(peer->part + have, data + i, take);
            whole = peer->part;
        }
        i += take;
        if (have + take < frame) break;
        if ((whole[0] & 0xf6) != (qos ? 0x32 : 0x30)) die("not the frame that was sent");
        if (rate && peer->kind == FAST && t0 && !t1) {
            double due;
            memcpy(&due, whole + frame - (size_t)payload, sizeof due);
            if (due >= t0) note(&delivery, t - due);
        }
        if (!qos) continue;
        if (order) {
            const unsigned char *digits = whole + id_at - 3;
            uint64_t index;
            memcpy(&index, whole + frame - (size_t)payload + sizeof(double), sizeof index);
            if (index != peer->next[(digits[0] - '0') * 100 + (digits[1] - '0') * 10 + digits[2] - '0']++)
                die("a message is missing, repeated or out of order");
        }
        if (peer->acks_end + 4 > READ) die("the broker does not take acknowledgements");
        unsigned char *ack = peer->acks + peer->acks_end;
        ack[0] = 0x40, ack[1] = 2, ack[2] = whole[id_at], ack[3] = whole[id_at + 1];
        peer->acks_end += 4;
    }
    if (peer->kind != SLOW) return;
    if (peer->acks_at > READ / 2) { /* the ring of marks counts from the start of acks */
        memmove(peer->acks, peer->acks + peer->acks_at, peer->acks_end - peer->acks_at);
        for (unsigned i = peer->mark_at ? peer->mark_at - 1 : 0; i != peer->mark_end; i++)
            peer->mark[i % MARKS].end -= peer->acks_at < peer->mark[i % MARKS].end ? peer->acks_at : peer->mark[i % MARKS].end;
        peer->acks_end -= peer->acks_at, peer->acks_at = 0;
    }
    if (peer->mark_end - peer->mark_at == MARKS - 1) peer->mark_end--; /* together with the one before, later */
    peer->mark[peer->mark_end % MARKS].due = t + slow_ms / 1e3;
    peer->mark[peer->mark_end++ % MARKS].end = peer->acks_end;
}

static void take(struct peer *peer) {
    ssize_t got;
    do { /* edge triggered: read until a read comes back short */
        got = recv(peer->fd, buffer, READ, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) die("the broker closed a connection");
        double t = now();
        if (peer->kind == PUBLISHER) {
            for (uint64_t k = peer->bytes / 4; rate && t0 && !t1 && k < (peer->bytes + got) / 4; k++)
                if (due_at(peer, k) >= t0) note(&puback, t - due_at(peer, k));
        } else if (qos || rate) {
            walk(peer, buffer, got, t);
        } else {
            size_t into = peer->bytes % frame;
            if ((!into || frame - into < (size_t)got) && buffer[into ? frame - into : 0] != 0x30)
                die("not the frame that was sent");
        }
        peer->bytes += got;
        if (peer->kind != PUBLISHER && qos) flush_acks(peer, t);
    } while (got == READ);
}

/* A collector that the broker dials: CONNECT and CONNACK with the roles changed. */
static int pick_up(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1)) die("listen");
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || recv(fd, buffer, READ, 0) <= 0 || buffer[0] != 0x10) die("no CONNECT");
    close(listener);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    send_all(fd, props ? "\x20\x03\x00\x00\x00" : "\x20\x02\x00\x00", props ? 5 : 4);
    return fd;
}

static int assemble(int poll) {
    char id[48];
    int count = collectors + slow + publishers;
    if (count > LIMIT) die("too many clients");
    for (int i = 0; i < away; i++) {
        snprintf(id, sizeof id, "%s-away%03d", name, i);
        int fd = dial(port, id, 1);
        subscribe(fd, name, qos);
        send_all(fd, "\xe0\x00", 2);
        close(fd);
    }
    for (int i = 0; i < count; i++) {
        struct peer *peer = &peers[i];
        peer->kind = i < collectors ? FAST : i < collectors + slow ? SLOW : PUBLISHER;
        peer->number = i - (peer->kind == PUBLISHER ? collectors + slow - first_number : 0);
        snprintf(id, sizeof id, "%s-%s%03d", name, peer->kind == PUBLISHER ? "pub" : resume ? "away" : "col", peer->number);
        if (answer && peer->kind != PUBLISHER) peer->fd = pick_up(answer);
        else peer->fd = dial(port, id, peer->kind != PUBLISHER && (persistent || resume));
        if (peer->kind == PUBLISHER) {
            if (sparkplug) give_birth(peer->fd, name, peer->number);
            peer->block = frames_of(name, peer->number, qos, payload, frame, block_frames);
        } else {
            if (!resume && !answer) subscribe(peer->fd, name, qos);
            peer->part = calloc(1, frame);
            peer->next = calloc(1000, sizeof *peer->next);
            peer->acks = malloc(READ);
        }
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = peer};
        epoll_ctl(poll, EPOLL_CTL_ADD, peer->fd, &event);
    }
    return count;
}

static void show(double seconds, double count, double total, double cpu, double disk) {
    printf("{\"seconds\": %.6f, \"messages\": %.0f, \"total\": %.0f, \"cpu_s\": %.6f, \"written\": %.0f", seconds, count,
           total, cpu, disk);
    const struct latencies *all[] = {&delivery, &puback};
    for (int i = 0; i < 2; i++)
        if (all[i]->count)
            printf(", \"%s_us\": [%d, %d, %d]", i ? "puback" : "delivery", percentile(all[i], 50), percentile(all[i], 99),
                   percentile(all[i], 99.9));
    printf("}\n");
}

static void nap(int poll, const struct peer *publisher, int count) {
    double wait = 1e-3, t = now();
    for (int i = 0; i < count; i++)
        if (due_at(&publisher[i], publisher[i].planned) - t < wait) wait = due_at(&publisher[i], publisher[i].planned) - t;
    struct timespec limit = {.tv_nsec = (wait - 50e-6) * 1e9};
    if (wait > 50e-6) ppoll(&(struct pollfd){.fd = poll, .events = POLLIN}, 1, &limit, NULL);
}

static int run(void) {
    if (sparkplug) form = &ndata, payload = NDATA_BYTES;
    size_t body = 2 + strlen(name) + form->extra + (qos ? 2 : 0) + payload;
    body += props;
    frame = body + (body > 127 ? 3 : 2), id_at = frame - payload - props - 2, block_frames = qos ? 8192 : (1 << 18) / frame;
    int poll = epoll_create1(0), count = assemble(poll), first = collectors + slow;
    uint64_t base0 = 0, base1 = 0, last = 0, total = 0;
    double cpu0 = 0, cpu1 = 0, disk0 = 0, disk1 = 0, progress = begin = now();
    for (;;) {
        double t = now();
        uint64_t got = received(), acked = 0, base;
        for (int i = first; i < count; i++) acked += peers[i].bytes / 4;
        base = collectors ? got : acked;
        if (!t0 && t >= begin + warm_ms / 1e3) t0 = t, base0 = base, cpu0 = cpu_s(pid), disk0 = written(pid);
        if (t0 && !t1 && (messages ? base >= messages : t >= t0 + run_ms / 1e3))
            t1 = t, base1 = base, cpu1 = cpu_s(pid), disk1 = written(pid);
        if (got + acked != last) last = got + acked, progress = t;
        if (t1 && (!collectors || got >= total) && (!qos || acked >= total)) break;
        if (t > progress + 20) {
            fprintf(stderr, "load: of %llu messages %llu came and %llu were acknowledged\n", (unsigned long long)total,
                    (unsigned long long)got, (unsigned long long)acked);
            return 2;
        }
        for (int i = first; i < count; i++) feed(&peers[i], t, got, &total, t1 != 0);
        for (int i = collectors; i < first; i++) flush_acks(&peers[i], t);
        struct epoll_event events[LIMIT];
        if (rate && calm) nap(poll, &peers[first], count - first);
        int ready = epoll_wait(poll, events, LIMIT, rate ? 0 : slow ? 1 : 100);
        for (int i = 0; i < ready; i++) {
            struct peer *peer = events[i].data.ptr;
            take(peer);
            if (peer->kind == FAST && qos) flush_acks(peer, now());
        }
    }
    double times = collectors ? collectors : 1;
    show(t1 - t0, (base1 - base0) * times, total * times, cpu1 - cpu0, disk1 - disk0);
    return 0;
}

static int idle(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files), files.rlim_cur = files.rlim_max, setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < connections; i++) {
        char id[48];
        snprintf(id, sizeof id, "%s-idle%05d", name, i);
        int fd = dial(port, id, 0);
        if (subscriptions) subscribe(fd, id, 1);
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) continue;
    return 0;
}

static int logins(void) {
    static unsigned char connect_packet[READ];
    size_t size = fread(connect_packet, 1, sizeof connect_packet, stdin);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int poll = epoll_create1(0), open = 0, codes[256] = {0}, none = 0;
    double started = 0, all = rate * run_ms / 1e3, t;
    begin = now();
    while ((t = now()) < begin + run_ms / 1e3 + 10 && (started < all || open)) {
        for (; started < all && started < (t - begin) * rate; started++, open++) {
            struct epoll_event event = {.events = EPOLLIN, .data.fd = socket(AF_INET, SOCK_STREAM, 0)};
            if (connect(event.data.fd, (struct sockaddr *)&there, sizeof there)) die("connect");
            send_all(event.data.fd, connect_packet, size);
            epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
        }
        struct epoll_event events[LIMIT];
        ppoll(&(struct pollfd){.fd = poll, .events = POLLIN}, 1, &(struct timespec){.tv_nsec = 500000}, NULL);
        for (int i = 0, ready = epoll_wait(poll, events, LIMIT, 0); i < ready; i++, open--) {
            unsigned char answer[100];
            if (recv(events[i].data.fd, answer, sizeof answer, 0) > 3) codes[answer[3]]++;
            else none++;
            close(events[i].data.fd);
        }
    }
    printf("{\"none\": %d", none + open);
    for (int code = 0; code < 256; code++)
        if (codes[code]) printf(", \"%d\": %d", code, codes[code]);
    puts("}");
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
    prctl(PR_SET_TIMERSLACK, 1UL);
    const struct { const char *key; double *value; } keys[] = {
        {"port", &port}, {"pid", &pid} /* of the broker, for its CPU and disk */, {"qos", &qos}, {"publishers", &publishers},
        {"collectors", &collectors}, {"slow", &slow} /* collectors that acknowledge after slow_ms */, {"slow_ms", &slow_ms},
        {"away", &away} /* persistent collectors that subscribe and leave */, {"persistent", &persistent} /* collectors */,
        {"resume", &resume} /* collectors are those that were away */, {"payload", &payload}, {"window", &window},
        {"ahead", &ahead}, {"rate", &rate} /* messages/s, 0 = all it can */, {"warm_ms", &warm_ms}, {"run_ms", &run_ms},
        {"sparkplug", &sparkplug} /* nodes that publish NDATA of 30 metrics; whole run, not paced */,
        {"messages", &messages} /* end after so many instead of run_ms */, {"connections", &connections},
        {"subscriptions", &subscriptions} /* idle: one for each connection */, {"order", &order} /* needs 16 bytes */,
        {"first", &first_number} /* of the publishers */, {"calm", &calm},
        {"answer", &answer} /* the collector is dialled, at this port */, {"props", &props} /* bytes, of what it gets */,
    };
    if (count == 3 && !strcmp(args[1], "relay")) return relay(atoi(args[2]));
    for (int i = 2; i < count; i++) {
        char *value = strchr(args[i], '=');
        size_t key = 0, length = value ? value - args[i] : 0;
        if (length == 4 && !strncmp(args[i], "name", 4)) {
            name = value + 1;
            continue;
        }
        while (key < sizeof keys / sizeof *keys && (strncmp(args[i], keys[key].key, length) || keys[key].key[length])) key++;
        if (!length || key == sizeof keys / sizeof *keys) return fprintf(stderr, "load: what is %s?\n", args[i]), 64;
        *keys[key].value = atof(value + 1);
    }
    if (order && (payload < 16 || !qos)) die("order needs QoS 1 and 16 bytes");
    if (count > 2 && !strcmp(args[1], "run")) return run();
    if (count > 2 && !strcmp(args[1], "idle")) return idle();
    if (count > 2 && !strcmp(args[1], "logins")) return logins();
    fprintf(stderr, "load: see the head of load.c\n");
    return 64;
}
