"""What the clients of the walk do with what they get, and what they find wrong in it."""

from gateway.core.limits import Limits
from gateway.core.model import Session
from gateway.core.ranks import drops
from gateway.core.record import unpack_state
from tests import wire_format as mqtt
from tests.property.loop import Loop
from tests.property.peers import Life, Link, Post, Receiver, Sender

SHARE = "$share/g/t/#"


class Witness(Loop):
    """Knows what is owed to whom, and that nothing may be answered before it is on disk."""

    def __init__(
        self, limits: Limits, seed: int, receivers: list[Receiver], senders: list[Sender], bad_store: bool
    ) -> None:
        super().__init__(limits, seed)
        self.receivers, self.senders = receivers, senders
        self.peers: list[Receiver | Sender] = [*receivers, *senders]
        self.bad_store = bad_store
        self.posts: dict[int, Post] = {}
        self.copy = 0
        self.number: dict[int, int] = {}  # copy -> message
        self.epoch = 0  # grows when a group's delivery may rightly go to a second member
        self.group = Life(SHARE, True)

    def gone(self, peer: Receiver | Sender) -> None:
        """What a memory member of the group had may go to another one now."""
        if isinstance(peer, Receiver) and peer.share and not peer.persistent:
            self.epoch += 1

    def received(self, link: Link, p: mqtt.Packet) -> None:
        peer = link.peer
        if p.type == mqtt.CONNECT:
            assert isinstance(peer, Receiver)
            self._dialled_in(link, peer)
        elif p.type == mqtt.CONNACK:
            if self.bad_store and p["code"] == (0x88 if peer.version == 5 else 3):
                return  # the disk takes nothing for too long: its connection is closed
            assert p["code"] == 0, p
            link.connected = True
            if isinstance(peer, Receiver):
                self._receiver_in(link, peer, bool(p["present"]))
            else:
                self._sender_in(link, peer, bool(p["present"]))
        elif p.type == mqtt.DISCONNECT:
            assert p["code"] in (0x8E, 0x97, 0x98), p
        elif p.type == mqtt.PINGREQ:
            raise AssertionError("no keep alive was asked for")
        elif isinstance(peer, Receiver):
            self._to_receiver(link, peer, p)
        else:
            self._to_sender(link, peer, p)

    def _dialled_in(self, link: Link, r: Receiver) -> None:
        """A broker that may have lost the session: then what is in flight comes as new."""
        r.fresh_connection()
        link.connected = True
        present = self.rng.random() < 0.7
        if not present:
            for copy in r.payloads.values():
                if copy:  # else a will
                    self.posts[self.number[copy]].exact = False
            r.forget()
        props = [(mqtt.RECEIVE_MAXIMUM, r.window)]
        if r.max_packet:
            props.append((mqtt.MAXIMUM_PACKET_SIZE, r.max_packet))
        body = bytes([present, 0]) + (mqtt.properties(props) if r.version == 5 else b"")
        self.send(link, mqtt.frame(mqtt.CONNACK << 4, body))

    def _receiver_in(self, link: Link, r: Receiver, present: bool) -> None:
        if r.present:
            assert present, f"the session of {r.name} is gone"
        r.fresh_connection()
        if not present:
            self.life_over(r)
        missing = {f: q for f, q in r.wanted.items() if f not in r.life.filters}
        if missing:
            self.subscribe(link, r, missing)

    def life_over(self, r: Receiver) -> None:
        r.fresh_session()
        if r.share:
            self.epoch += 1
            if not [m for m in self.receivers if m.share and m.persistent and m.life.filters]:
                self.group.over = True
                self.group = Life(SHARE, True)

    def subscribe(self, link: Link, r: Receiver, filters: dict[str, int]) -> None:
        r.next_pid += 1
        r.asked[r.next_pid] = list(filters)
        self.send(link, mqtt.subscribe(list(filters.items()), r.next_pid, r.version))

    def _to_receiver(self, link: Link, r: Receiver, p: mqtt.Packet) -> None:
        if p.type == mqtt.PUBLISH:
            self._delivered(r, p)
        elif p.type == mqtt.SUBACK:
            assert all(code < 3 for code in p["codes"])
            for f in r.asked.pop(p["pid"]):
                r.life.filters[f] = r.wanted[f]
                r.present = r.persistent
                if r.share and r.persistent:
                    self.group.filters["t/#"] = 2
        elif p.type == mqtt.PUBREL:
            pid = p["pid"]
            if r.persistent:
                if pid in r.recs:
                    self._check_state(r.name, "released", pid, True)
            r.known.discard(pid)
            r.recs.discard(pid)
            if pid not in r.rels:
                r.rels.append(pid)
        elif p.type != mqtt.UNSUBACK:
            raise AssertionError(f"unexpected {p}")

    def _check_state(self, client_id: str, what: str, pid: int, want: bool) -> None:
        s = self.router.core.sessions[client_id]
        data = self.store.cursors.get(s.sid)
        found = False
        if data is not None:
            state = unpack_state(data)
            ids = {
                "released": state.released,
                "awaiting": state.awaiting,
                "sent": [row[0] for row in state.sent],
            }[what]
            found = pid in ids
        assert found is want, f"{client_id}: id {pid} among those {what} on disk: {found}"

    def _delivered(self, r: Receiver, p: mqtt.Packet) -> None:
        topic = p["topic"]
        if r.version == 5:
            alias = p.prop(mqtt.TOPIC_ALIAS)
            if alias is not None:
                assert 0 < alias <= r.aliases_max
                if topic:
                    r.aliases[alias] = topic
                topic = r.aliases[alias]
        if r.max_packet:
            assert len(p.raw) <= r.max_packet
        number, copy, meant = p["payload"].split(b".")[:3]
        assert meant.decode() == topic, f"{r.name} got {p['payload']!r} on {topic}"
        pid = p["pid"]
        if not pid:
            self._first(r, int(number), int(copy), 0, p["retain"])
            return
        used = r.payloads.get(pid)
        if used is not None:
            assert used == int(copy), f"{r.name}: id {pid} of {used} is used again for {int(copy)}"
        again = used is not None
        r.payloads[pid] = int(copy)
        window = min(r.window, self.limits.max_inflight)
        assert pid not in r.flight, f"{r.name}: id {pid} sent twice on one connection"
        r.flight.add(pid)
        assert len(r.flight) <= window, f"{r.name}: {len(r.flight)} in flight, {window} allowed"
        if p["dup"] is False:
            assert not again, f"{r.name}: repeated without DUP"
        if p["qos"] == 2:
            assert pid not in r.recs, f"{r.name}: PUBLISH again after PUBREC"
            held = self.router.core.sessions[r.name].inflight[pid]
            if r.persistent and held.backlog is not None:  # None: to a group from before a durable member joined it
                self._check_state(r.name, "sent", pid, True)
        if p["qos"] == 1 or pid not in r.known:
            self._first(r, int(number), int(copy), p["qos"], p["retain"])
        if p["qos"] == 2:
            r.known.add(pid)
        r.open[pid] = (int(number), p["qos"])
        if pid in r.late:
            r.late.remove(pid)

    def _first(self, r: Receiver, number: int, copy: int, qos: int, retain: bool) -> None:
        life = self.group if r.share else r.life
        if number == 0:
            return  # a will
        if retain:
            life.got.setdefault(number, 0)  # for a new subscription, beside what it gets as it is published
            return
        post = self.posts[number]
        known = copy in life.copies
        if r.share and known and life.copies[copy] != r.name:
            assert post.epoch < self.epoch, f"{copy} went to {life.copies[copy]} and {r.name}"
        life.got[number] = life.got.get(number, 0) + 1
        if qos == 2 and post.qos == 2 and not r.share and r.persistent and post.exact:
            assert life.got[number] == 1, f"{r.name} got the QoS 2 message {number} {life.got[number]} times"
        if known:
            return
        life.copies[copy] = r.name
        if not r.share and r.in_order:
            place = self.order[copy] if copy in self.order else len(self.order)
            row = ("", 1) if qos and not self.limits.mqueue_priorities else (post.topic, qos)
            assert place > life.last.get(row, -1), f"{r.name}: {number}.{copy} out of order"
            life.last[row] = place

    def _sender_in(self, link: Link, s: Sender, present: bool) -> None:
        if s.present:
            assert present, f"the session of {s.name} is gone"
        s.present = s.persistent
        s.releasing = set()
        if not s.persistent:
            for post in s.flight.values():
                post.exact = False
            s.flight = {}
            return
        for pid, post in list(s.flight.items()):
            if not present:
                post.exact = False
                post.released = False
            if link.closed:
                return
            if post.released:
                s.releasing.add(pid)
                self.send(link, mqtt.ack(mqtt.PUBREL, pid, s.version))
            else:
                self.send_post(link, s, pid, post, True)

    def send_post(self, link: Link, s: Sender, pid: int, post: Post, dup: bool) -> None:
        self.copy += 1
        post.copies.append(self.copy)
        self.number[self.copy] = post.number
        props = [(mqtt.MESSAGE_EXPIRY, post.expiry)] if post.expiry and s.version == 5 else []
        data = mqtt.publish(
            post.topic, post.payload(self.copy), post.qos, post.retain, dup and post.qos > 0, pid, s.version, props
        )
        self.send(link, data)

    def _to_sender(self, link: Link, s: Sender, p: mqtt.Packet) -> None:
        pid = p["pid"]
        code = p.fields.get("code", 0)
        post = s.flight.get(pid)
        if p.type == mqtt.PUBACK:
            assert post is not None
            assert post.qos == 1
            del s.flight[pid]
            if code < 0x80:
                self._acknowledged(post)
            else:
                assert code == 0x97
                assert self.bad_store
        elif p.type == mqtt.PUBREC:
            if post is None or post.released:
                return
            assert post.qos == 2
            if code >= 0x80:
                assert code == 0x97
                assert self.bad_store
                del s.flight[pid]
                return
            if s.persistent:
                self._check_state(s.name, "awaiting", pid, True)
            post.released = True
            self._acknowledged(post)
        else:
            assert p.type == mqtt.PUBCOMP
            if post is None:
                return
            s.releasing.discard(pid)
            if s.persistent:
                self._check_state(s.name, "awaiting", pid, False)
            del s.flight[pid]

    def _acknowledged(self, post: Post) -> None:
        post.acknowledged = True
        kept = bool(self.stored & set(post.copies))
        passing = [  # it expires, or a later one of QoS 0 took its place and was then given up for want of room
            p
            for p in self.posts.values()
            if p.topic == post.topic and p.number >= post.number and (p.expiry or (p.qos == 0 and p.retain))
        ]
        if post.retain and not passing:
            first = self.order[post.copies[0]] if post.copies[0] in self.order else 0
            later = [
                c
                for c in self.stored
                if c and self.order[c] >= first and self.posts[self.number[c]].topic == post.topic
            ]
            assert later, f"retained {post.number} is acknowledged but not on disk"
        for life in post.owed:
            if life.over:
                continue
            assert kept or post.number in life.answered or self.dropped(life), (
                f"{post.number} is acknowledged but not on disk for {life.name}"
            )
            life.must.add(post.number)

    def dropped(self, life: Life) -> int:
        core = self.router.core
        owner = core.groups.get(life.name) if life.shared else core.sessions.get(life.name)
        if isinstance(owner, Session):
            return sum(drops(core, owner).values())
        return core.ledger.dropped(owner.sid) if owner is not None else 0
