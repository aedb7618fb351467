"""Patience that ends on a live connection: deliveries that go out again, incoming QoS 2 ids that are given up.

Both are off unless an operator asks for them. The first is for 3.1 and 3.1.1 alone: 5.0 forbids it [MQTT-4.4.0-1].
The second gives up exactly once: a message whose PUBREL never came is taken for a new one when it is sent again.
"""

from mypy_extensions import i64

from gateway.core.delivery import write
from gateway.core.model import RELEASED, SENT, Client, Session
from gateway.core.state import Core
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.packets import PUBREL, V5


def check(core: Core, now: i64) -> None:
    """Once a second."""
    if core.limits.retry_ms:
        for c in core.clients:
            s = c.session
            # who has not read the first copy needs no second
            if (
                s is not None
                and c.remote is None
                and c.version != V5
                and c.connected
                and not c.closing
                and not c.unsent
                and not c.out.size
            ):
                again(core, c, s, now)
    if core.limits.await_rel_ms:
        for s in core.by_sid.values():
            if s.awaiting:
                give_up(core, s, now)


def again(core: Core, c: Client, s: Session, now: i64) -> None:
    """PUBLISH with DUP, or PUBREL, in the order of the first sending."""
    if s.resend or c.congested:
        return
    every: i64 = core.limits.retry_ms
    for d in list(s.inflight.values()):
        if now - d.sent_at < every or c.congested:
            continue
        packet_id: int = d.packet_id
        if d.state == SENT and d.counted:
            d.sent_at = now
            write(core, c, d, True, now)
        elif d.state == RELEASED:
            d.sent_at = now
            core.ledger.pubrel_sent += 1
            core.send(c, encode_ack(PUBREL, packet_id, 0, c.version))


def give_up(core: Core, s: Session, now: i64) -> None:
    """Ids whose PUBREL does not come; those of before a restart are counted from the first look at them."""
    limit: i64 = core.limits.await_rel_ms
    for packet_id, number in list(s.awaiting.items()):
        if number > core.durable_commit:
            continue  # not answered yet
        since = s.awaiting_since.get(packet_id, 0)
        if since == 0:
            at: int = now
            s.awaiting_since[packet_id] = at
        elif now - since >= limit:
            del s.awaiting[packet_id]
            del s.awaiting_since[packet_id]
            if s.durable:
                core.dirty_session(s)
                core.lazy(now)
            core.log.append(f"{s.client_id}: no PUBREL came for packet id {packet_id}: given up")
