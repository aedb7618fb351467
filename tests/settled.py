"""Deliveries to their end, as the broker knows it: silence may also be that of a machine that has other work."""

import time
from collections.abc import Iterator
from typing import Final

from gateway.cli.control import ask
from tests.harness import Broker
from tests.wire import Wire
from tests.wire_format import Packet

PATIENCE_S: Final = 60.0  # without a packet, while the broker still has something
_LOOK_S: Final = 0.2


def until_settled(broker: Broker, wire: Wire, client_id: str) -> Iterator[Packet]:
    """Every packet, until the broker has nothing queued or unacknowledged for this session, or sends none all the same.

    Who takes them answers them; the session is the one of ``wire``.
    """
    give_up = time.monotonic() + PATIENCE_S
    over = False
    while True:
        try:
            packet = wire.read_packet(_LOOK_S)
        except TimeoutError:
            if over or time.monotonic() > give_up:
                return
            over = not _left(broker, client_id)  # then one more look: it may have been sent just before
            continue
        if packet is None:
            return
        over, give_up = False, time.monotonic() + PATIENCE_S
        yield packet


def _left(broker: Broker, client_id: str) -> int:
    row = ask(broker.data_dir / "control.sock", {"cmd": "session", "client_id": client_id})
    return int(row["queue_messages"]) + int(row["inflight"])
