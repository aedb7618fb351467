"""What the nodes know that they sent, and what collectors got: messages by a digest of topic and payload."""

import hashlib
import struct
from array import array
from pathlib import Path
from typing import Final, NamedTuple, final

RECORD: Final = struct.Struct("<QqQqB")  # as Delivered
HISTORICAL, SKIPPED, NBIRTH = 1, 2, 4


def digest(topic: str, payload: bytes) -> int:
    """64 bits of topic and bytes."""
    return int.from_bytes(hashlib.blake2b(topic.encode() + b"\0" + payload, digest_size=8).digest(), "little")


class Delivered(NamedTuple):
    """A message as a collector got it."""

    id: int  # ingest id
    received: int  # by the gateway, UTC ms
    digest: int
    at: int  # here, monotonic ns
    flags: int  # LATE, and its own QoS from bit 4 on

    @property
    def late(self) -> bool:
        return bool(self.flags & LATE)

    @property
    def qos(self) -> int:
        return self.flags >> 4


LATE: Final = 1


def read(file: Path) -> list[Delivered]:
    """What a collector wrote down, a record that is not complete left out."""
    data = file.read_bytes()
    return [Delivered(*fields) for fields in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size])]


def first(records: list[Delivered]) -> list[Delivered]:
    """Without what came again after a lost connection."""
    return list({one.id: one for one in reversed(records)}.values())[::-1]


@final
class Session:
    """One connection of a node, from its CONNECT on. ``run``: of the gateway, counts from 0."""

    def __init__(self, will: int, run: int) -> None:
        self.will = will
        self.run = run
        self.goodbye = False  # it ended with NDEATH and DISCONNECT
        self.sent = array("Q")  # digests, in their order
        self.at = array("q")  # UTC ms
        self.flags = bytearray()

    def add(self, sent: int, at: int, flags: int) -> None:
        self.sent.append(sent)
        self.at.append(at)
        self.flags.append(flags)


@final
class Sent:
    """All that one node knows. ``asked``: when it was asked for a rebirth, monotonic s, by run of the gateway."""

    def __init__(self, name: str) -> None:
        self.name = name  # "group/edge node"
        self.sessions: list[Session] = []
        self.asked: dict[int, list[float]] = {}
        self.faults: list[str] = []

    @property
    def count(self) -> int:
        return sum(len(session.sent) for session in self.sessions)

    @property
    def requests(self) -> int:
        return sum(map(len, self.asked.values()))
