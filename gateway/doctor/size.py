"""How much disk, RAM and flash an outage takes: a model of the store, held against runs of the real one.

The store writes a segment for each commit (``core/record.py``) as one row of SQLite: what fits stays in a leaf of its
b-tree, the rest goes to overflow pages. In WAL mode each page that a commit touches is written to the log at once, and
once more to the file when the log is written back.
"""

import math
from dataclasses import dataclass
from typing import Final, final

from gateway.boards import Board

PAGE: Final = 4096
FRAME: Final = PAGE + 24  # a page in the write-ahead log
LEAF: Final = PAGE - 8
OVERFLOW: Final = PAGE - 4
LOCAL_MAX: Final = PAGE - 35  # of a row without overflow
LOCAL_MIN: Final = (PAGE - 12) * 32 // 255 - 23
CELL: Final = 8  # head and pointer of a row in its leaf

RECORD: Final = 6  # beside topic and payload: position, set, flags, lengths
ROW: Final = 59  # of a segment beside its records: times, checksums, sets
TARGET: Final = 5  # each collector, in targets and records
DRAINED: Final = 0.5  # of the pages in use is written again when they are given up

JOURNAL: Final = 8_000  # of an ext4's own for a commit by itself: descriptor, inode, commit, and some written back
ID_BLOCK: Final = 1024  # packet ids: a commit for so many messages to a collector that is there,
ID_BLOCK_MAX: Final = 8192
ID_RUSH_S: Final = 3  # for twice as many when they lasted no longer
STAMP_S: Final = 60  # the clock is stored so often, with all quiet
STAMP_PAGES: Final = 2
SEGMENT_BYTES: Final = 65_536  # small commits are one segment in RAM up to this size
SEGMENT_S: Final = 10  # and this age
SEGMENT_RAM: Final = 500  # a segment, and an entry for it in a queue
BASE_RAM: Final = 43_000_000
CONNECTION_RAM: Final = 6_400
SESSION_RAM: Final = 2_500
WINDOW_RAM: Final = 2 * 1_048_576  # read ahead for a collector that drains

YEAR_S: Final = 365 * 86_400
ROOM: Final = 1.25  # of the budget over what is needed
MIB: Final = 1 << 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What comes, and for whom it is kept."""

    rate: float  # messages/s at QoS 1 and 2 (and Sparkplug), together
    payload: float  # bytes, on average
    topic: float = 30  # bytes
    burst: float = 1  # messages that come at a time
    collectors: int = 1  # persistent sessions that get all of them
    connections: int = 20
    outage_s: int = 8 * 3600
    away_days: float = 5  # in a year, the collectors together
    prompt: bool = True  # they acknowledge within the commit window
    drain: float = 5_000  # messages/s that a collector takes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """Bytes, seconds and messages."""

    messages: int
    per_commit: float
    disk_per_message: float
    disk: float
    written_per_message: float  # while a collector is away
    written_s_away: float
    written_s_online: float
    written_year: float
    flash_year: float  # what the flash itself writes
    years: float  # until its endurance is used up
    ram: float
    drain_s: float | None  # None = never
    longest_s: float  # outage that the board's disk holds
    settings: dict[str, object]
    fits: bool


def size(load: Load, board: Board) -> Sized:
    """The figures for this load on this board."""
    together = max(load.burst, load.rate * max(board.commit_ms, board.commit_interval_ms) / 1000, 1.0)
    commits_s = load.rate / together
    leaf, pages = pages_of(row_bytes(load, together))
    used = leaf + pages * PAGE
    written = written_bytes(leaf, pages) + DRAINED * used
    quiet = (STAMP_PAGES * FRAME + JOURNAL) / STAMP_S
    away = commits_s * written + quiet
    online = quiet + ids_bytes_s(load) if load.prompt else away
    away_share = min(1.0, load.away_days / 365)
    year = YEAR_S * (away * away_share + online * (1 - away_share))
    disk = commits_s * used * load.outage_s
    budget = disk * ROOM + 4 * MIB
    spare = load.drain - load.rate
    flash = year * board.amplification
    return Sized(
        messages=math.ceil(load.rate * load.outage_s),
        per_commit=together,
        disk_per_message=used / together,
        disk=disk,
        written_per_message=written / together,
        written_s_away=away,
        written_s_online=online,
        written_year=year,
        flash_year=flash,
        years=board.endurance_bytes / flash,
        ram=ram_bytes(load, together),
        drain_s=load.rate * load.outage_s / spare if spare > 0 else None,
        longest_s=(board.disk_bytes / ROOM) / (commits_s * used) if commits_s else math.inf,
        settings={
            "store.max_bytes": f"{max(64, math.ceil(budget / MIB))}MiB",
            "mqtt.max_waiting_bytes": f"{board.ram_bytes // 8 // MIB}MiB",
        },
        fits=budget <= board.disk_bytes and ram_bytes(load, together) <= board.ram_bytes * 0.6,
    )


def row_bytes(load: Load, together: float) -> float:
    """A segment of so many messages, as a row."""
    lengths = (1 if load.payload >= 128 else 0) + (1 if load.payload >= 16_384 else 0)
    return ROW + TARGET * load.collectors + together * (RECORD + lengths + load.topic + load.payload)


def pages_of(row: float) -> tuple[float, int]:
    """What a row takes of a leaf page in bytes, and its overflow pages."""
    local, pages = row, 0
    if row > LOCAL_MAX:
        local = LOCAL_MIN + (row - LOCAL_MIN) % OVERFLOW
        local = LOCAL_MIN if local > LOCAL_MAX else local
        pages = math.ceil((row - local) / OVERFLOW)
    cell = local + CELL + (4 if pages else 0)
    return PAGE / max(1, LEAF // cell), pages


def written_bytes(leaf: float, pages: int) -> float:
    """By one commit: to the log its pages, and where it takes new ones the first of the file, their map and the leaf's
    parent; later all new ones to the file.
    """
    new_leaf = leaf / PAGE
    takes_new = 1.0 if pages else new_leaf
    return FRAME * (1 + pages + 2 * takes_new + new_leaf) + leaf + pages * PAGE


def ids_bytes_s(load: Load) -> float:
    """By collectors that are there and prompt: their packet ids are on disk before they are used, a block at a time."""
    block = ID_BLOCK
    while block < ID_BLOCK_MAX and block < load.rate * ID_RUSH_S:
        block *= 2
    return load.collectors * load.rate / block * (FRAME + JOURNAL)


def ram_bytes(load: Load, together: float) -> float:
    """Of the process, at the end of the outage and while it drains."""
    bytes_s = load.rate * (row_bytes(load, together) / together)
    segments = load.outage_s / min(SEGMENT_S, SEGMENT_BYTES / bytes_s) if bytes_s else 0
    queues = 0.5 + 0.5 * load.collectors  # a segment is there once, its entries for each
    return (
        BASE_RAM
        + CONNECTION_RAM * load.connections
        + SESSION_RAM * load.collectors
        + segments * SEGMENT_RAM * queues
        + WINDOW_RAM * load.collectors
    )
