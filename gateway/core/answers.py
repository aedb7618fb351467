"""Acknowledgements to publishers: in order for each connection, once what they promise is kept."""

from typing import Final

from gateway.core.model import Client
from gateway.core.state import Core, Waiter
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.packets import PUBACK, PUBREC

PONG: Final = b"\xd0\x00"


def pong(core: Core, c: Client) -> None:
    """PINGRESP, the one answer to QoS 0: what came before and must be kept is on disk, unless that takes nothing."""
    number = c.kept0
    flying = core.flying
    if number > core.durable_commit and not core.error_since and not (flying is not None and flying.hangs):
        if flying is not None and flying.number == number:
            core.answer_with(flying, c, PONG)
            return
        if core.commit.urgent or core.commit.lazy_at:
            core.answer_later(c, PONG)
            return
    core.send(c, PONG)


def release_pongs(core: Core) -> None:
    """The disk takes nothing, and the link is not to be cut for that."""
    for commit in (core.flying, core.commit):
        if commit is None:
            continue
        others: list[Waiter] = []
        for w in commit.waiters:
            c = w.client
            if c is None or w.data != PONG:
                others.append(w)
                continue
            core.answered(c)
            if not c.closed and not c.closing:
                core.send(c, PONG)
        commit.waiters = others


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
