"""A random walk through the life of a broker: clients that keep the rules, a store that lags, fails and fills.

The walk knows what is owed: a message that was acknowledged to its sender reaches every durable session and
group whose subscription stood when it was sent, unless the ledger counts a drop.
"""

import random
from collections.abc import Callable
from typing import final

from gateway.core.limits import ClientRule, Limits
from gateway.core.router import Router
from gateway.core.topics import matches, split_share
from gateway.core.uplink import OUT, Login, Rule, Uplink
from tests import wire_format as mqtt
from tests.property.audit import audit, audit_idle
from tests.property.peers import PERSISTENT_S, Life, Link, Post, Receiver, Sender
from tests.property.witness import SHARE, Witness

TOPICS = ["t/a", "t/b", "t/c", "r/a"]


def small_limits(rng: random.Random, full: bool) -> Limits:
    """So small that every queue goes to the disk and back all the time."""
    limits = Limits()
    limits.window_messages = rng.choice([2, 4, 8])
    limits.window_bytes = rng.choice([100, 200, 1000])
    limits.max_inflight = rng.choice([1, 3, 32])
    limits.receive_maximum = rng.choice([3, 10])
    limits.out_high_bytes = rng.choice([200, 1000, 1_000_000])
    limits.max_mqueue_len = rng.choice([3, 1000])
    limits.mqueue_policy = rng.choice([0, 0, 1, 2])
    limits.mqueue_store_qos0_persistent = rng.random() < 0.2
    limits.upgrade_qos = rng.random() < 0.15
    limits.error_hold_ms = 2000
    limits.commit_window_ms = rng.choice([0, 20, 500])
    limits.hold_bytes_max = rng.choice([200, 10_000])
    limits.push_back_ms = 1500
    limits.store_bytes_max = 1500 if full else 0
    limits.pending_bytes_max = rng.choice([300, 67_108_864])
    return limits


def gathering(limits: Limits, rng: random.Random) -> None:
    """Messages gather on their paths; some receivers or all are of type APPLICATION."""
    limits.write_and_flush = rng.random() < 0.5
    limits.device_write_and_flush = False
    limits.buffered_msg_count = limits.device_buffered_msg_count = rng.choice([0, 2, 5, 50])
    limits.app_buffered_msg_count = rng.choice([1, 3])
    limits.flush_cache_max = rng.choice([0, 1, 10_000])
    limits.flush_cache_expiration_ms = rng.choice([50, 300_000])
    limits.client_types = rng.choice([[], [ClientRule("*o*", "", True)], [ClientRule("*", "", True)]])


def table_of(rng: random.Random) -> list[tuple[str, int]]:
    """Priorities for some topics; never none, for the witness must know what order it may ask for."""
    rows = [(filter, rng.choice([1, 2, 9, 255])) for filter in ("t/a", "t/+", "r/#", "t/b") if rng.random() < 0.5]
    return rows or [("t/c", 5)]


def cast(rng: random.Random, groups: bool, uplinks: bool) -> tuple[list[Receiver], list[Sender]]:
    receivers = [
        Receiver("one", 5, True, {"t/#": 2, "t/a": 1}, rng.randint(1, 5)),
        Receiver("two", 4, True, {"t/+": rng.choice([1, 2]), "r/#": 1}, 65535),
        Receiver("three", 5, True, {"t/b": 1, "t/c": 0}, rng.randint(1, 5), aliases=rng.choice([0, 2])),
        Receiver("four", 5, True, {"t/a": 2, "r/a": 2}, 2, max_packet=rng.choice([0, 60]), aliases=2),
        Receiver("five", 5, False, {"t/#": 2}, rng.randint(1, 5)),
    ]
    if groups:
        receivers += [
            Receiver("m1", 5, True, {SHARE: 2}, rng.randint(1, 5), share=SHARE),
            Receiver("m2", 4, True, {SHARE: 1}, 65535, share=SHARE),
            Receiver("m3", 5, False, {SHARE: 2}, rng.randint(1, 5), share=SHARE),
        ]
    if uplinks:
        receivers += [
            Receiver(
                "$uplink/u5", 5, True, {"t/#": 2}, rng.randint(1, 5), max_packet=rng.choice([0, 500]), dialled=True
            ),
            Receiver("$uplink/u4", 4, True, {"t/+": 1, "t/c": 2}, 65535, dialled=True),
        ]
    return receivers, [Sender("p1", 5, True), Sender("p2", 4, True), Sender("p3", 4, False)]


@final
class Walk(Witness):
    def __init__(
        self,
        seed: int,
        *,
        crashes: bool,
        failures: bool,
        full: bool,
        expiry: bool,
        groups: bool,
        gathers: bool = False,
        ranks: bool = False,
        uplinks: bool = False,
    ) -> None:
        rng = random.Random(seed)
        limits = small_limits(rng, full)
        if gathers:
            gathering(limits, rng)
        if ranks:
            limits.mqueue_priorities = table_of(rng)
            limits.mqueue_default_priority = rng.choice(["lowest", "highest"])
            limits.mqueue_store_qos0_persistent = rng.random() < 0.4
        super().__init__(limits, seed, *cast(rng, groups, uplinks), failures)
        self.uplinks = [self._uplink(r, rng, full) for r in self.receivers if r.dialled]
        self._configure()
        self.crashes, self.failures, self.full, self.expiry, self.ranks = crashes, failures, full, expiry, ranks
        self.steps: list[str] = []
        self.table = self._table()

    def _table(self) -> list[tuple[int, Callable[[], None]]]:
        table: list[tuple[int, Callable[[], None]]] = [
            (30, self.publish),
            (40, self.answer),
            (8, self.answer_late),
            (6, self.release),
            (6, self.lose_connection),
            (12, self.connect_someone),
            (3, self.take_over),
            (2, self.end_a_session),
            (4, self.hold),
            (6, self.commit_one),
            (5, self.let_go),
            (3, self.read_late),
            (5, self.read_now),
            (3, self.stall),
            (4, self.unstall),
            (5, self.pass_time),
            (1, self.resubscribe),
        ]
        if self.crashes:
            table.append((2, self.crash))
        if self.failures:
            table += [(2, self.fail), (2, self.mend), (2, self.pass_longer)]
        if self.full:
            table += [(3, self.pass_longer)]
        if self.ranks:
            table.append((1, self.other_priorities))
        if self.expiry:
            table += [(2, self.pass_longer), (1, self.pass_very_long)]
        return table

    def _uplink(self, r: Receiver, rng: random.Random, full: bool) -> Uplink:
        live_first = rng.random() < 0.3
        r.in_order = not live_first
        r.life.filters = dict(r.wanted)
        made = Uplink(
            r.name.removeprefix("$uplink/"), [Rule(OUT, f, "", "", q, live_first) for f, q in r.wanted.items()]
        )
        if rng.random() < 0.5:
            made.dead_topic = "dead"
        if full:
            made.max_bytes = rng.choice([0, 300])
            made.drop_newest = rng.random() < 0.5
        return made

    def _configure(self) -> None:
        self.router.uplinks.configure(self.uplinks, "walk", 8, self.now)

    def step(self) -> None:
        weights = [weight for weight, _ in self.table]
        _, action = self.rng.choices(self.table, weights)[0]
        self.steps.append(action.__name__)
        action()
        self.pump()

    def _online(self, peers: list[Receiver] | list[Sender]) -> Link | None:
        links = [p.link for p in peers if p.link is not None and p.link.connected]
        return self.rng.choice(links) if links else None

    def publish(self) -> None:
        for _ in range(self.rng.choice([1, 1, 3, 8])):
            link = self._online(self.senders)
            if link is None:
                return
            s = link.peer
            assert isinstance(s, Sender)
            rng = self.rng
            qos = rng.choice([0, 1, 1, 2])
            if qos and len(s.flight) >= min(self.limits.receive_maximum if s.version == 5 else 10, 10):
                return
            topic = rng.choice(TOPICS)
            expiry = rng.choice([0, 0, 3]) if self.expiry else 0
            post = Post(len(self.posts) + 1, topic, qos, topic == "r/a", expiry, rng.choice([20, 20, 60]))
            self.posts[post.number] = post
            post.exact = s.persistent
            post.epoch = self.epoch
            post.owed = self._owed(topic, qos)
            pid = s.pid(rng) if qos else 0
            if qos:
                s.flight[pid] = post
            self.send_post(link, s, pid, post, False)

    def _owed(self, topic: str, qos: int) -> list[Life]:
        owed: list[Life] = []
        if not qos:
            return owed
        for r in self.receivers:
            if r.persistent and not r.share:
                asked = [q for f, q in r.life.filters.items() if matches(f, topic)]
                if asked and (max(asked) > 0 or self.limits.upgrade_qos):
                    owed.append(r.life)
        if self.group.filters and matches(split_share(SHARE)[1], topic):
            owed.append(self.group)
        return owed

    def answer(self) -> None:
        for _ in range(self.rng.choice([1, 2, 6])):
            link = self._online(self.receivers)
            if link is not None:
                r = link.peer
                assert isinstance(r, Receiver)
                self.answer_one(link, r)

    def answer_one(self, link: Link, r: Receiver) -> bool:
        rng = self.rng
        if r.rels and (not r.open or rng.random() < 0.4):
            pid = r.rels.pop(rng.randrange(len(r.rels)))
            r.flight.discard(pid)
            r.payloads.pop(pid, None)
            self.send(link, mqtt.ack(mqtt.PUBCOMP, pid, r.version))
            return True
        if not r.open:
            return False
        pid = rng.choice(list(r.open)) if rng.random() < 0.4 else next(iter(r.open))
        number, qos = r.open.pop(pid)
        life = self.group if r.share else r.life
        bad = r.version == 5 and rng.random() < 0.05
        if not (bad and r.dialled):
            life.answered.add(number)
        code = rng.choice([0x80, 0x97, 0x99]) if r.dialled else 0x80
        if qos == 1:
            r.flight.discard(pid)
            r.payloads.pop(pid, None)
            self.send(link, mqtt.ack(mqtt.PUBACK, pid, r.version, code if bad else None))
        elif bad:
            r.flight.discard(pid)
            r.payloads.pop(pid, None)
            r.known.discard(pid)
            life.got[number] = life.got.get(number, 1) - 1  # refused, so it may come again after a crash
            self.send(link, mqtt.ack(mqtt.PUBREC, pid, r.version, code))
        else:
            r.recs.add(pid)
            self.send(link, mqtt.ack(mqtt.PUBREC, pid, r.version))
        return True

    def answer_late(self) -> None:
        """PUBACK for a delivery of a connection, maybe of a run of the broker, that is over."""
        link = self._online(self.receivers)
        if link is None:
            return
        r = link.peer
        assert isinstance(r, Receiver)
        if r.late:
            pid = r.late.pop(self.rng.randrange(len(r.late)))
            if pid not in r.open:
                r.payloads.pop(pid, None)
                self.send(link, mqtt.ack(mqtt.PUBACK, pid, r.version))

    def release(self) -> None:
        link = self._online(self.senders)
        if link is not None:
            self.release_all(link)

    def release_all(self, link: Link) -> None:
        s = link.peer
        assert isinstance(s, Sender)
        for pid, post in list(s.flight.items()):
            if post.released and not link.closed and pid not in s.releasing:
                s.releasing.add(pid)
                self.send(link, mqtt.ack(mqtt.PUBREL, pid, s.version))

    def lose_connection(self) -> None:
        links = list(self.links.values())
        if links:
            link = self.rng.choice(links)
            dialled = isinstance(link.peer, Receiver) and link.peer.dialled
            if link.connected and self.rng.random() < 0.3 and not (dialled and link.peer.version == 4):
                self.send(link, mqtt.disconnect(link.peer.version))
            self.cut(link)

    def end_a_session(self) -> None:
        """DISCONNECT with a session expiry of 0, or CONNECT with clean start."""
        peers = [p for p in self.receivers if p.persistent and not p.dialled]
        r = self.rng.choice(peers)
        if r.version == 5 and r.link is not None and r.link.connected:
            link = r.link
            r.present = False
            self.life_over(r)
            self.send(link, mqtt.disconnect(5, 0, [(mqtt.SESSION_EXPIRY, 0)]))
            self.cut(link)
        elif r.link is None:
            r.present = False
            self.life_over(r)
            self.open_link(r, True)
            if r.version == 4:  # a clean session of 3.1.1 ends with its connection: it comes back with a lasting one
                for link in [one for one in self.links.values() if one.peer is r]:
                    self.cut(link)

    def connect_someone(self) -> None:
        away = [p for p in self.peers if p.link is None]
        if away:
            self.open_link(self.rng.choice(away), False)

    def take_over(self) -> None:
        peer = self.rng.choice(self.peers)
        old = peer.link
        if old is not None:
            old.closed = True  # what the broker still sends there does not arrive
            if old.connected:
                peer.offline_at = self.now
            self.gone(peer)
            self.open_link(peer, False)
            self.links.pop(old.client, None)
            self.router.on_closed(old.client, self.now)

    def open_link(self, peer: Receiver | Sender, clean: bool) -> None:
        address = f"127.0.0.1:{len(self.steps)}"
        if isinstance(peer, Receiver) and peer.dialled:
            login = Login(peer.name.removeprefix("$uplink/"), "there", "gateway")
            login.version = peer.version
            login.keep_alive_s = 0
            client = self.router.uplinks.dial(peer, address, login, self.now)
        else:
            client = self.router.open(peer, address, self.now)
        link = Link(client, peer)
        self.links[client] = link
        peer.link = link
        if client.remote is not None:
            return
        if self.now - peer.offline_at >= PERSISTENT_S * 1000:
            peer.present = False
        if isinstance(peer, Sender) and not peer.present:
            for post in peer.flight.values():
                post.exact = False  # the session that knew its id is gone, and the client may never be told
        self.send(link, peer.connect_bytes(clean or not peer.persistent))

    def hold(self) -> None:
        self.holding = True

    def commit_one(self) -> None:
        if self.submitted is not None:
            self._commit()

    def let_go(self) -> None:
        self.holding = False

    def fail(self) -> None:
        self.failing = True
        if self.submitted is not None:
            number, self.submitted = self.submitted.number, None
            self.router.on_commit_failed(number, "no space", self.now)

    def mend(self) -> None:
        self.failing = False
        self.pass_time()

    def read_late(self) -> None:
        self.reading_late = True

    def read_now(self) -> None:
        self.reading_late = False

    def stall(self) -> None:
        link = self._online(self.receivers)
        if link is not None:
            link.stalled = True

    def unstall(self) -> None:
        for link in list(self.links.values()):
            if link.stalled and not link.closed:
                link.stalled = False
                self.router.core.touch(link.client)

    def resubscribe(self) -> None:
        link = self._online(self.receivers)
        if link is None:
            return
        r = link.peer
        assert isinstance(r, Receiver)
        if r.share or r.dialled:
            return
        f = self.rng.choice(list(r.wanted))
        if f in r.life.filters:
            del r.life.filters[f]
            r.next_pid += 1
            self.send(link, mqtt.unsubscribe([f], r.next_pid, r.version))
        if not link.closed:
            self.subscribe(link, r, {f: r.wanted[f]})

    def pass_time(self) -> None:
        self._pass(self.rng.choice([10, 300, 1100]))

    def pass_longer(self) -> None:
        self._pass(self.rng.choice([1500, 4000]))

    def pass_very_long(self) -> None:
        """Sessions of those who are away end."""
        for r in self.peers:
            if r.link is None and r.persistent and r.version == 5 and not (isinstance(r, Receiver) and r.dialled):
                r.present = False
                if isinstance(r, Receiver):
                    self.life_over(r)
        self._pass(PERSISTENT_S * 1000 + 1)

    def _pass(self, ms: int) -> None:
        end = self.now + ms
        coarse = ms // 20 if ms > 10_000 else 1
        while self.now < end:
            due = self.router.on_tick(self.now)
            self.pump()
            self.now = min(end, max(due, self.now + coarse))
        self.router.on_tick(self.now)

    def other_priorities(self) -> None:
        """A reload, or settings for the next start."""
        self.limits.mqueue_priorities = table_of(self.rng)
        if not self.crashes or self.rng.random() < 0.5:
            self.router.reload(self.limits, self.now)

    def crash(self) -> None:
        """As kill -9: a commit that was not answered is lost or, as likely, on disk after all."""
        if self.submitted is not None and self.rng.random() < 0.5 and not self.failing:
            self._apply(self.submitted)
        for link in self.links.values():
            link.closed = True
            link.peer.link = None
            if link.connected:
                link.peer.offline_at = self.now
        self.links.clear()
        self.submitted = None
        self.reads.clear()
        self.store.numbers.clear()
        self.epoch += 1
        for r in self.receivers:
            r.recs.clear()  # a PUBREC that was not on disk yet is forgotten
            if self.failures or self.full or self.expiry:
                r.life.last = {}  # a drop that was not on disk yet is forgotten: what was passed over comes after all
            if r.persistent and not r.dialled and r.version == 5 and self.now - r.offline_at >= PERSISTENT_S * 1000:
                r.present = False  # it came back, but that was not on disk either
                self.life_over(r)
        self.router = Router(self.limits, self.store.snapshot(), self.now, 1)
        ids = self.router.needed_segments()
        self.router.finish_load(self.store.read_now(ids), self.now)
        self.router.on_tick(self.now)
        self._configure()

    # -- the end

    def finish(self) -> None:
        """Everybody comes back and answers; then nothing may be missing, and nothing left behind."""
        self.holding = self.reading_late = self.failing = False
        self.unstall()
        self.limits.store_bytes_max = 0
        self.limits.mqueue_policy = 0
        self._pass(600)
        for _ in range(400):
            self.pump()
            busy = False
            for peer in self.peers:
                if peer.link is None and peer.persistent:
                    self.open_link(peer, False)
                    busy = True
            self.pump()
            for link in list(self.links.values()):
                peer = link.peer
                if isinstance(peer, Receiver):
                    while not link.closed and self.answer_one(link, peer):
                        busy = True
                elif not link.closed and peer.flight:
                    self.release_all(link)
                    busy = True
            self.pump()
            paused = [c for c in self.router.core.uplinks.calls.values() if c.remote is not None and c.remote.until]
            self._pass(1200)
            if not busy and not paused:
                break
        for uplink in self.uplinks:
            self.router.remove_session(f"$dead/{uplink.name}", self.now)
        self.pump()
        audit(self.router.core, self.store)
        self.check_nothing_is_missing()
        self._pass(12_000)
        self.pump()
        audit_idle(self.router.core, self.store)

    def check_nothing_is_missing(self) -> None:
        for life in [*[r.life for r in self.receivers if r.persistent], self.group]:
            missing = sorted(life.must - set(life.got))
            if self.crashes:  # dropped before it was on disk: answered, and the count of the drop not yet stored
                missing = [n for n in missing if not self.posts[n].expiry and life.name != "four"]
            dropped = self.dropped(life)
            assert len(missing) <= dropped, f"{life.name} never got {missing}, {dropped} drops counted"
            if not (self.failures or self.full or self.expiry) and not life.shared and life.name != "four":
                assert not missing, f"{life.name} never got {missing}"

    def audit(self) -> None:
        audit(self.router.core, self.store)
