"""What waits goes on: as much as the window and the connection take, after an acknowledgement, a write or a commit."""

from mypy_extensions import i64

from gateway.core.backlog import pop, refill, settle
from gateway.core.delivery import drop, start, start_again, write
from gateway.core.ledger import EXPIRED, TOO_LARGE
from gateway.core.model import APPLICATION, BATCH_MAX, DEVICE, RELEASED, SENT, STAGED, Backlog, Client, Session
from gateway.core.paths import beyond_limits, gather_in_batch
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


def pump(core: Core, s: Session, now: i64) -> None:
    """Send what the window and the connection take now."""
    c = s.client
    if c is None or not c.connected or c.jammed():
        return
    if c.path == APPLICATION and not c.in_batch:
        pump_batch(core, s, c, now)
    else:
        pump_all(core, s, c, now)


def pump_batch(core: Core, s: Session, c: Client, now: i64) -> None:
    """At most BATCH_MAX at a time, so that others get their turn; on_writable() goes on. Its end always flushes."""
    c.in_batch = True
    pump_all(core, s, c, now)
    c.in_batch = False
    c.more = c.batch >= BATCH_MAX
    c.batch = 0
    if c.out:
        core.touch(c)


def pump_all(core: Core, s: Session, c: Client, now: i64) -> None:
    if s.resend and not send_again(core, s, c, now):
        return
    while s.queue0:
        d = s.queue0.popleft()
        s.queue_bytes -= d.message.size
        if d.message.deadline and d.message.deadline < now:
            drop(core, s, d, EXPIRED, now)
        elif write(core, c, d, False, now):
            s.settled += 1
        else:
            drop(core, s, d, TOO_LARGE, now)
        if c.jammed():
            return
    b = s.backlog
    if b is not None:
        pump_backlog(core, s, c, b, now)
    while s.queue and s.used < c.window and not c.jammed():
        d = s.queue.popleft()
        s.queue_bytes -= d.message.size
        if d.message.deadline and d.message.deadline < now:
            drop(core, s, d, EXPIRED, now)
        elif not start(core, s, c, d, now):
            s.queue.appendleft(d)
            s.queue_bytes += d.message.size
            break


def pump_backlog(core: Core, s: Session, c: Client, b: Backlog, now: i64) -> None:
    """One FIFO over all topics: QoS 1 does not overtake a QoS 2 that is on its way to the disk."""
    while b.ram and not c.jammed():
        d = b.ram.head()
        if d.packet_id:
            if d.state == SENT and s.used >= c.window:
                break
            pop(b)
            if d.state == SENT:
                start_again(core, s, c, d, now)
        elif d.message.deadline and d.message.deadline < now:
            drop(core, s, pop(b), EXPIRED, now)
        elif c.path == DEVICE and (limited := beyond_limits(core, b, d.message, now)):
            drop(core, s, pop(b), limited, now)
        elif d.qos == 0:
            pop(b)
            if write(core, c, d, False, now):
                s.settled += 1
                settle(core, b, d.message, now)
            else:
                drop(core, s, d, TOO_LARGE, now)
        elif s.used >= c.window or (d.qos == 1 and (s.staged or d.message.waits)):
            break
        else:
            pop(b)
            if not start(core, s, c, d, now):
                b.ram.appendleft(d)
                b.ram_bytes += d.message.size
                break
    if not b.at_end():
        refill(core, b)
        if b.at_end() and b.ram and s.used < c.window and not c.jammed() and not s.staged:
            pump_backlog(core, s, c, b, now)


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
                pubrel_again(core, c, packet_id)
    return True


def pubrel_again(core: Core, c: Client, packet_id: int) -> None:
    data = encode_ack(PUBREL, packet_id, 0, c.version)
    core.ledger.pubrel_sent += 1
    if c.in_batch:
        c.out.append(data)
        c.out_bytes += len(data)
        gather_in_batch(core, c)
    else:
        core.send(c, data)
