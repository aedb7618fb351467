"""What waits goes on: as much as the window and the connection take, after an acknowledgement, a write or a commit."""

from mypy_extensions import i64

from gateway.core.backlog import pop, settle
from gateway.core.delivery import drop, start, start_again, write
from gateway.core.fifo import Fifo
from gateway.core.ledger import EXPIRED, TOO_LARGE
from gateway.core.model import (
    APPLICATION,
    BATCH_MAX,
    DEVICE,
    RELEASED,
    SENT,
    STAGED,
    Backlog,
    Client,
    Delivery,
    Rank,
    Session,
)
from gateway.core.pace import held_back, spend
from gateway.core.paths import beyond_limits, gather_in_batch
from gateway.core.ranks import barrier, turn, zero_waits
from gateway.core.readahead import refill
from gateway.core.state import Core
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.packets import PUBREL


def staged(core: Core, s: Session, packet_id: int, now: i64) -> None:
    """Message and packet id of a QoS 2 delivery are on disk."""
    d = s.inflight.get(packet_id)
    if d is None or d.state != STAGED:
        return
    s.staged -= 1
    d.state = SENT
    c = s.client
    if c is None or not d.counted:
        if c is not None and c.connected:  # else the CONNACK sees to it
            s.resend.append(packet_id)
            pump(core, s, now)
        return
    write(core, c, d, False, now)
    if s.staged == 0:
        pump(core, s, now)


def waits(s: Session) -> bool:
    """Whether pump() might find something: most acknowledgements free a slot that nothing waits for."""
    b = s.backlog
    if b is not None and (b.ram or not b.live):
        return True
    return bool(s.queue) or bool(s.queue0) or bool(s.resend) or s.ranks is not None


def pump(core: Core, s: Session, now: i64) -> None:
    """Send what the window and the connection take now."""
    c = s.client
    if c is None or not c.connected:
        return
    if c.jammed():
        if c.congested and not c.closing:
            trickle(core, s, c, now)
    elif c.path == APPLICATION and not c.in_batch:
        pump_batch(core, s, c, now)
    else:
        pump_all(core, s, c, now)


def trickle(core: Core, s: Session, c: Client, now: i64) -> None:
    """To a congested connection that has room again: as many as slots are free, whatever the QoS."""
    n: i64 = c.window - s.used
    high = core.high()
    while n > 0 and not s.resend and c.unsent + c.out.size <= high and one(core, s, c, now):
        n -= 1


def one(core: Core, s: Session, c: Client, now: i64) -> bool:
    """The next that waits goes, or is dropped. False when none may."""
    ranks = s.ranks
    if ranks is not None:
        return one_ranked(core, s, c, ranks, now)
    if s.queue0:
        send0(core, s, c, s.queue0, now)
        return True
    b = s.backlog
    if b is not None:
        if not b.ram and not b.live:
            refill(core, b)
        if b.ram:
            return send_head(core, s, c, b, now)
    return bool(s.queue) and s.used < c.window and start_head(core, s, c, s.queue, now)


def pump_batch(core: Core, s: Session, c: Client, now: i64) -> None:
    """At most BATCH_MAX at a time, so that others get their turn; on_writable() goes on. Its end always flushes."""
    c.in_batch = True
    pump_all(core, s, c, now)
    c.in_batch = False
    c.more = c.batch >= BATCH_MAX
    c.batch = 0
    if c.out.size:
        core.touch(c)


def pump_all(core: Core, s: Session, c: Client, now: i64) -> None:
    if s.resend and not send_again(core, s, c, now):
        return
    ranks = s.ranks
    if ranks is not None:
        while not c.jammed() and one_ranked(core, s, c, ranks, now):
            pass
        return
    while s.queue0:
        send0(core, s, c, s.queue0, now)
        if c.jammed():
            return
    b = s.backlog
    if b is not None:
        pump_backlog(core, s, c, b, now)
    while s.queue and s.used < c.window and not c.jammed():
        if not start_head(core, s, c, s.queue, now):
            break


def send0(core: Core, s: Session, c: Client, queue0: Fifo[Delivery], now: i64) -> None:
    d = queue0.popleft()
    core.queued(s, -d.message.size)
    if d.message.deadline and d.message.deadline < now:
        drop(core, s, d, EXPIRED, now)
    elif write(core, c, d, False, now):
        s.settled += 1
    else:
        drop(core, s, d, TOO_LARGE, now)


def start_head(core: Core, s: Session, c: Client, queue: Fifo[Delivery], now: i64) -> bool:
    """The window has room for the first of a queue in memory; False when no packet id may be used."""
    d = queue.popleft()
    core.queued(s, -d.message.size)
    if d.message.deadline and d.message.deadline < now:
        drop(core, s, d, EXPIRED, now)
    elif not start(core, s, c, d, now):
        queue.appendleft(d)
        core.queued(s, d.message.size)
        return False
    return True


def one_ranked(core: Core, s: Session, c: Client, ranks: list[Rank], now: i64) -> bool:
    """One message of the rank whose turn it is: its QoS 0 first, which needs no slot.

    False when nothing waits, when it must be read first, or when the window is full and that rank has no QoS 0: a lower
    one that has some does not overtake it.
    """
    before = barrier(core, s)
    r = turn(core, ranks, before)
    if r is None:
        behind(c, s)
        return False
    zero = r.zero
    b = r.backlog
    if r.queue0:
        s.ranked -= 1
        send0(core, s, c, r.queue0, now)
    elif zero is not None and ready(zero, before):
        if not send_head(core, s, c, zero, now):
            return False
        if not zero.live:
            refill(core, zero)
    elif b is not None and ready(b, before):
        if not send_head(core, s, c, b, now):
            return False
        if not b.live:
            refill(core, b)
    elif r.queue and s.used < c.window:
        s.ranked -= 1
        if not start_head(core, s, c, r.queue, now):
            s.ranked += 1
            return False
    else:
        return False
    r.credit -= 1
    behind(c, s)
    return True


def ready(b: Backlog, before: i64) -> bool:
    return bool(b.ram) and (before == 0 or b.ram.head().message.seq < before)


def behind(c: Client, s: Session) -> None:
    """Once no QoS 0 waits, fresh ones go straight."""
    if c.behind0 and not zero_waits(s):
        c.behind0 = False
        c.set_quick()


def pump_backlog(core: Core, s: Session, c: Client, b: Backlog, now: i64) -> None:
    """One FIFO over all topics."""
    going = True
    while going:
        while b.ram and not c.jammed():
            if not send_head(core, s, c, b, now):
                going = False
                break
        if b.at_end() or not refill(core, b) or s.used >= c.window or c.jammed() or s.staged:
            return


def send_head(core: Core, s: Session, c: Client, b: Backlog, now: i64) -> bool:
    """The first of a durable queue goes, or is dropped; False when it must wait.

    QoS 1 does not overtake a QoS 2 that is on its way to the disk.
    """
    d = b.ram.head()
    if d.packet_id:
        if d.state == SENT and s.used >= c.window:
            return False
        pop(b)
        if d.state == SENT:
            start_again(core, s, c, d, now)
    elif d.message.deadline and d.message.deadline < now:
        drop(core, s, pop(b), EXPIRED, now)
    elif c.path == DEVICE and (limited := beyond_limits(core, b, d.message, now)):
        drop(core, s, pop(b), limited, now)
    elif d.qos and (s.used >= c.window or (d.qos == 1 and (s.staged or d.message.waits))):
        return False
    elif s.paced and held_back(core, s, now):
        return False
    elif d.qos == 0:
        pop(b)
        if s.paced:
            spend(s, d.message.size)
        if write(core, c, d, False, now):
            s.settled += 1
            settle(core, b, d, now)
        else:
            drop(core, s, d, TOO_LARGE, now)
    else:
        pop(b)
        if not start(core, s, c, d, now):
            b.ram.appendleft(d)
            b.ram_bytes += d.message.size
            return False
        if s.paced:
            spend(s, d.message.size)
    return True


def send_again(core: Core, s: Session, c: Client, now: i64) -> bool:
    """What was in flight when the last connection ended: same ids, same order, DUP [MQTT-4.4.0-1]; True when done."""
    while s.resend:
        packet_id = s.resend.head()
        d = s.inflight.get(packet_id)
        if d is None:
            s.resend.popleft()
        elif d.state == SENT:
            if s.used >= c.window or c.jammed():
                return False
            s.resend.popleft()
            d.sent_at = now
            if write(core, c, d, True, now):
                d.counted = True
                s.used += 1
            else:
                del s.inflight[packet_id]
                drop(core, s, d, TOO_LARGE, now)
        else:
            if c.jammed():
                return False
            s.resend.popleft()
            if d.state == RELEASED:
                d.sent_at = now
                pubrel_again(core, c, packet_id)
    return True


def pubrel_again(core: Core, c: Client, packet_id: int) -> None:
    data = encode_ack(PUBREL, packet_id, 0, c.version)
    core.ledger.pubrel_sent += 1
    if c.in_batch:
        c.out.write(data)
        gather_in_batch(core, c)
    else:
        core.send(c, data)
