"""A PUBLISH as it goes over an uplink: the remote's topic, the mark of this gateway, what the remote takes."""

from mypy_extensions import i64

from gateway.core.ledger import LOOP, NO_RULE, TOO_LARGE
from gateway.core.model import Client, Delivery
from gateway.core.origin import handed_on, hops
from gateway.core.remote import Remote
from gateway.mqtt.encode import publish_head, publish_properties
from gateway.mqtt.fields import BYTE
from gateway.mqtt.packets import V5


def bare(d: Delivery) -> bool:
    """Nothing but topic and payload."""
    m = d.message
    return not d.retain and m.deadline == 0 and not m.props and not m.received


def encoded_there(c: Client, remote: Remote, d: Delivery, dup: bool, now: i64) -> bytes:
    """The bytes; b"" when it cannot be handed on, which unfit() explains."""
    m = d.message
    topic = remote.name(m.topic)
    if not topic:
        return b""
    first = 0x30
    middle = b""
    if d.qos:
        packet_id: int = d.packet_id
        first = 0x32 if d.qos == 1 else 0x34
        middle = BYTE[packet_id >> 8] + BYTE[packet_id & 255]
    if d.retain and remote.retains:
        first |= 1
    if dup:
        first |= 8
    if c.version == V5:
        if m.deadline == 0 and not m.props and not m.received:
            middle += remote.bare
        else:
            if m.props and hops(m.props) >= remote.hops_max:
                return b""
            middle += properties(remote, d, now)
    return b"%b%b%b" % (publish_head(first, topic, len(middle) + len(m.payload)), middle, m.payload)


def properties(remote: Remote, d: Delivery, now: i64) -> bytes:
    """Encoded, with their length."""
    m = d.message
    expiry: int = -1
    if m.deadline:
        expiry = max(0, (m.deadline - now + 999) // 1000)  # reduced by the time waited [MQTT-3.3.2-6]
    return publish_properties(handed_on(m.forwarded(), remote.mark), expiry, 0, None)


def unfit(c: Client, remote: Remote, d: Delivery, now: i64) -> str:
    """Why the remote is not to get it, as the reason of a drop; "" = it is."""
    m = d.message
    topic = remote.name(m.topic)
    if not topic:
        return NO_RULE
    if m.props and c.version == V5 and hops(m.props) >= remote.hops_max:
        return LOOP
    if c.max_packet:
        size: i64 = 2 + len(topic) + len(m.payload) + (2 if d.qos else 0)
        if c.version == V5:
            size += len(remote.bare) if bare(d) else len(properties(remote, d, now))
        head: i64 = 2 if size < 128 else (3 if size < 16_384 else (4 if size < 2_097_152 else 5))
        if head + size > c.max_packet:
            return TOO_LARGE
    return ""
