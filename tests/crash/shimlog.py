"""The shim's log as records, and what it says about acknowledgements that left too early."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests import wire_format as mqtt
from tests.harness import build_c

SHIM_SOURCE = Path(__file__).with_name("shim.c")

# what an acknowledgement that the broker sends is the answer to
ANSWERS = {mqtt.PUBACK: mqtt.PUBLISH, mqtt.PUBREC: mqtt.PUBLISH, mqtt.PUBREL: mqtt.PUBREC, mqtt.PUBCOMP: mqtt.PUBREL}


class Record(NamedTuple):
    """One line of the log. ``number``: offset of a W, length of a T, serial of S and F, packet type of I and A."""

    kind: str
    path: str = ""
    number: int = 0
    data: bytes = b""
    port: int = 0
    pid: int = 0


def build_shim(directory: Path) -> Path:
    return build_c(SHIM_SOURCE, directory / "shim.so", "-shared", "-fPIC", "-pthread")


def shim_env(data_dir: Path, **options: object) -> dict[str, str]:
    """The shim's environment; ``log=PATH, fail_at=3`` become SHIM_LOG and SHIM_FAIL_AT. Creates the directory."""
    data_dir.mkdir(parents=True, exist_ok=True)
    env = {"FOREBAY_SHIM_DIR": os.path.realpath(data_dir)}
    return env | {f"SHIM_{name.upper()}": str(value) for name, value in options.items()}


def read_log(path: Path) -> list[Record]:
    """All whole records; a last one that was cut off by a kill is left out."""
    raw = path.read_bytes()
    records: list[Record] = []
    at = 0
    while (end := raw.find(b"\n", at)) >= 0:
        kind, _, rest = raw[at:end].decode().partition(" ")
        at = end + 1
        if kind == "W":
            offset, size, name = rest.split(" ", 2)
            data = raw[at : at + int(size)]
            if len(data) < int(size):
                break
            at += int(size)
            records.append(Record(kind, name, int(offset), data))
        elif kind in ("T", "S", "F"):
            number, name = rest.split(" ", 1)
            records.append(Record(kind, name, int(number)))
        elif kind in ("I", "A"):
            port, packet, pid = map(int, rest.split())
            records.append(Record(kind, "", packet, b"", port, pid))
        else:
            assert kind in ("U", "R", "X"), f"no record of the shim: {kind!r} at byte {at}"
            records.append(Record(kind, rest))
    return records


def early_acknowledgements(
    records: list[Record], marker: Callable[[int, int], bytes] | None = None, ports: set[int] | None = None
) -> list[str]:
    """Acknowledgements that no completed sync stands behind.

    For each PUBACK, PUBREC, PUBREL and PUBCOMP to one of ``ports`` (all by default): behind the packet that it answers
    there must be a write, a sync of that file that began after the write, and its completion before the
    acknowledgement. ``marker(port, pid)`` gives bytes that the write for a PUBLISH must hold (b"" = any write will do).
    Only for traffic that has to be stored: persistent sessions and matching subscriptions.
    """
    faults = []
    asked: dict[tuple[int, int, int], int] = {}
    writes: dict[str, list[int]] = defaultdict(list)
    begun: dict[int, int] = {}
    synced: list[tuple[str, int]] = []  # (file, index where a sync of it began that is complete)
    for index, record in enumerate(records):
        if record.kind == "W":
            writes[record.path].append(index)
        elif record.kind == "S":
            begun[record.number] = index
        elif record.kind == "F":
            synced.append((record.path, begun[record.number]))
        elif record.kind == "I":
            asked[record.port, record.number, record.pid] = index
        elif record.kind == "A" and record.number in ANSWERS and (ports is None or record.port in ports):
            question = ANSWERS[record.number]
            since = asked.get((record.port, question, record.pid))
            need = marker(record.port, record.pid) if marker and question == mqtt.PUBLISH else b""
            if since is None or not _covered(records, writes, synced, since, need):
                faults.append(f"record {index}: {mqtt.NAMES[record.number]} {record.pid} to port {record.port}")
    return faults


def _covered(
    records: list[Record], writes: Mapping[str, list[int]], synced: list[tuple[str, int]], since: int, need: bytes
) -> bool:
    older = 0
    for path, begin in reversed(synced):
        if begin < since:
            # a sync that began before the question cannot cover the answer; two threads may finish out of order
            older += 1
            if older > 8:
                return False
            continue
        for index in reversed(writes[path]):
            if index < since:
                break
            if index < begin and need in records[index].data:
                return True
    return False
