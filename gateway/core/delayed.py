"""Messages that wait for their time: what is published to ``$delayed/SECONDS/TOPIC`` is on disk until it is published
to TOPIC, and both happen in one commit.

RAM holds the same rows as the disk, within ``delayed_messages_max`` and ``delayed_bytes_max``.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import i64

from gateway.core.fanout import deliver_all, retain
from gateway.core.ingest import command_deadline
from gateway.core.ledger import ACL, DISK, EXPIRED
from gateway.core.message import Message
from gateway.core.model import Route, Session
from gateway.core.record import Corrupt, pack_delayed, unpack_delayed
from gateway.core.routes import is_closed, route_of
from gateway.core.stall import RETRY_MS, must_wait
from gateway.core.state import Commit, Core
from gateway.mqtt.packets import Publish
from gateway.mqtt.reasons import NOT_AUTHORIZED, QUOTA_EXCEEDED, TOPIC_NAME_INVALID

OFFERS_DELAYED: Final = ("forebay-delayed", "1")  # a user property of CONNACK: this broker has it
BURST: Final = 100  # published in one go


def refusal(core: Core, route: Route, p: Publish) -> int:
    """Why a publish on a closed topic is not taken, as a reason code; 0 = it is one to keep()."""
    if not route.delayed:
        return NOT_AUTHORIZED
    if not route.onward:
        return TOPIC_NAME_INVALID
    limits = core.limits
    if is_closed(limits, route.onward):
        return NOT_AUTHORIZED
    d = core.delayed
    if limits.delayed_messages_max and len(d.rows) >= limits.delayed_messages_max:
        return QUOTA_EXCEEDED
    if limits.delayed_bytes_max and d.bytes + len(p.frame) > limits.delayed_bytes_max:
        return QUOTA_EXCEEDED
    return 0


def keep(core: Core, s: Session, route: Route, p: Publish, now: i64) -> None:
    """On disk with the open commit. Its expiry runs from now on, as that of any message [MQTT-3.3.2-5]."""
    deadline: i64 = now + p.expiry * 1000 if p.expiry >= 0 else 0
    m = Message(route.onward.encode(), p.payload, p.qos, p.retain, p.props, deadline)
    at: i64 = now + route.delay_s * 1000
    packed = pack_delayed(at, s.client_id, m)
    d = core.delayed
    id = d.next_id
    d.next_id += 1
    due: int = at
    d.rows[id] = packed
    d.bytes += len(packed)
    heappush(d.order, (due, id))
    core.commit.delayed[id] = packed
    core.commit.bytes += len(packed)
    core.commit.urgent = True
    core.wake(at)


def run(core: Core, due: i64, now: i64) -> i64:
    """Publish what is due; returns when it wants to be asked again, at most ``due`` (gateway ms)."""
    d = core.delayed
    left = BURST
    while d.order and d.order[0][0] <= now:
        if must_wait(core):  # what is published must have room on disk, as from a client
            return min(due, now + RETRY_MS)
        if left == 0:
            return now
        left -= 1
        id = d.order[0][1]
        if on_its_way(core, id):
            return min(due, now + 1)
        heappop(d.order)
        packed = d.rows.pop(id)
        d.bytes -= len(packed)
        _, client_id, m = unpack_delayed(packed)
        m.promised = True
        core.commit.delayed[id] = None
        core.commit.urgent = True
        publish(core, m, core.sessions.get(client_id), now)
    return min(due, d.order[0][0]) if d.order else due


def on_its_way(core: Core, id: int) -> bool:
    """Its row is not on disk yet: its publisher may still be refused."""
    flying = core.flying
    return id in core.commit.delayed or (flying is not None and id in flying.delayed)


def publish(core: Core, m: Message, s: Session | None, now: i64) -> None:
    """As its publisher ``s`` would now, but for a node's message: it is not what the node says at this moment."""
    if m.deadline and m.deadline <= now:
        core.ledger.drop(0, EXPIRED, 1)
        return
    if not m.deadline and core.limits.message_expiry_s:
        m.deadline = now + core.limits.message_expiry_s * 1000
    route = route_of(core, m.topic.decode())
    if route.closed:  # since the settings are others than they were
        core.ledger.drop(0, ACL, 1)
        return
    m.deadline = command_deadline(core, route, m.deadline, now)
    if m.retain:
        retain(core, route, m)
    if not deliver_all(core, route, m, s, False, now):
        core.ledger.no_subscriber += 1


def give_back(core: Core, commit: Commit) -> None:
    """The publishers of this commit are told that it is not kept; what nobody waits for stays."""
    d = core.delayed
    for id, packed in list(commit.delayed.items()):
        if packed is not None and id in d.rows and unpack_delayed(packed)[2].qos:
            del d.rows[id]
            d.bytes -= len(packed)
            commit.delayed[id] = None  # a sync that failed may have left it on disk all the same
            core.ledger.drop(0, DISK, 1)
    d.order = [entry for entry in d.order if entry[1] in d.rows]
    heapify(d.order)


def load_delayed(core: Core, rows: list[tuple[int, bytes]], now: i64) -> None:
    """At the start; what is due since is published by the first run()."""
    d = core.delayed
    for id, packed in rows:
        d.next_id = max(d.next_id, id + 1)
        try:
            at, _, m = unpack_delayed(packed)
            m.topic.decode()
        except (Corrupt, UnicodeDecodeError):
            core.alarms.append(f"delayed message {id} makes no sense: left out")
            core.commit.delayed[id] = None
            core.lazy(now)
            continue
        d.rows[id] = packed
        d.bytes += len(packed)
        d.order.append((at, id))
    heapify(d.order)
