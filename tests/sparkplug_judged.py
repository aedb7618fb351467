"""Traffic written by hand for the requirements checker, and what it says of it."""

from collections.abc import Iterable
from dataclasses import replace

from sparkplug.actions import Publish
from sparkplug.check.checker import Checker
from sparkplug.check.observed import Connected, Delivered, Disconnected, Observation, Published, Subscribed
from sparkplug.check.table import PREFIX
from sparkplug.check.verdicts import Outcome
from sparkplug.sparkplug_b_pb2 import Payload as Pb
from tests.sparkplug_rig import T0, Message, dbirth, nbirth, ndeath, topic

NCMD, DCMD = ("spBv1.0/g/NCMD/e", 1), ("spBv1.0/g/DCMD/e/#", 1)


def judged(seen: Iterable[Observation], *, servers: int = 1) -> dict[Outcome, set[str]]:
    """Ids, without their prefix, by what came of them."""
    checker = Checker(servers=servers)
    for one in seen:
        checker.see(one)
    found: dict[Outcome, set[str]] = {outcome: set() for outcome in Outcome}
    for finding in checker.findings():
        found[finding.outcome].add(finding.id.removeprefix(PREFIX))
    return found


def failed(seen: Iterable[Observation], *, servers: int = 1) -> set[str]:
    return judged(seen, servers=servers)[Outcome.FAIL]


def published(message: Message, at: int = T0, *, qos: int = 0, retain: bool = False, client: str = "n") -> Published:
    return Published(client, at, Publish(*message, qos, retain))


def delivered(message: Message, at: int = T0, *, client: str = "n", qos: int = 1, retain: bool = False) -> Delivered:
    return Delivered(client, at, Publish(*message, qos, retain))


def will(bd_seq: int = 0, *, qos: int = 1, retain: bool = False) -> Publish:
    return Publish(*ndeath(bd_seq), qos, retain)


def connected(bd_seq: int = 0, *, version: int = 4, **changes: object) -> Connected:
    return replace(Connected("n", T0, version, True, will(bd_seq)), **changes)  # type: ignore[arg-type]


def session(*more: Observation, bd_seq: int = 0, version: int = 4) -> list[Observation]:
    """A session of a node with a device as it should be, and what comes after its births (next seq: 2)."""
    return [
        connected(bd_seq, version=version),
        Subscribed("n", T0, (NCMD, DCMD)),
        published(nbirth(bd_seq=bd_seq)),
        published(dbirth(T0, 1)),
        *more,
    ]


def left(reason: int | None = 0) -> Disconnected:
    return Disconnected("n", T0, reason)


def changed(message: Message, text: str) -> Message:
    """The message with fields set by protobuf's text format, on top of what it has."""
    from google.protobuf import text_format

    found = Pb()
    found.ParseFromString(message[1])
    text_format.Merge(text, found)
    return message[0], found.SerializeToString()


def written(type: str, text: str, device: str | None = None) -> Message:
    """A message whose payload is written in protobuf's text format."""
    return changed((topic(type, device), b""), text)
