"""Acknowledgements to publishers: in order for each connection, once what they promise is kept."""

from gateway.core.model import Client
from gateway.core.state import Core
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.packets import PUBACK, PUBREC


def release_acks(core: Core, c: Client) -> None:
    """The done heads of both queues leave."""
    if c.closed or c.closing:
        return
    acks = c.acks
    while acks and acks.head().done:
        a = acks.popleft()
        c.unacked -= 1
        core.ledger.puback_sent += 1
        if a.reason == 0:
            c.out.write_puback(a.packet_id)
        else:
            c.out.write(encode_ack(PUBACK, a.packet_id, a.reason, c.version))
    recs = c.recs
    while recs and recs.head().done:
        a = recs.popleft()
        core.ledger.pubrec_sent += 1
        c.out.write(encode_ack(PUBREC, a.packet_id, a.reason, c.version))
    core.touch(c)
