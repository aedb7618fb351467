"""What is measured: each row is one load, given to each contestant with its own settings."""

from collections.abc import Mapping
from typing import Final, NamedTuple

PAYLOAD_BYTES: Final = 64
WINDOW: Final = 20  # mosquitto's own max_inflight_messages

FOREBAY: Final = "forebay"
INTERPRETED: Final = "interpreted"
MOSQUITTO: Final = "mosquitto"
AUTOSAVE: Final = "mosquitto-autosave"

PERSISTENCE: Final = {"persistence": True}
SAVE_CHANGES: Final = {"persistence": True, "autosave_on_changes": True, "autosave_interval": 1000}

# What a PUBACK is worth, for rows with a persistent collector.
DURABILITY: Final = {
    FOREBAY: "fsync before PUBACK: outlives a power cut",
    MOSQUITTO: "shipped persistence: RAM, saved every 30 minutes and at a clean end; a crash loses the rest",
    AUTOSAVE: "everything saved anew after each 1,000 changes, no fsync; a crash loses what came since",
}


class Row(NamedTuple):
    """``load`` are keys of load.c; ``forebay`` and ``mosquitto`` settings on top of the window."""

    name: str
    title: str
    group: str
    load: Mapping[str, float]
    kinds: tuple[str, ...] = (MOSQUITTO, FOREBAY)
    forebay: Mapping[str, object] = {}
    mosquitto: Mapping[str, object] = {}
    inflight: int = WINDOW  # outgoing window of both brokers


GROUPS: Final = {
    "memory": "Sessions in memory",
    "offline": "Durable, the collector is away (figures at the PUBACK)",
    "online": "Durable, the collector is there",
    "sparkplug": "Sparkplug, 30 metrics, 20 publishers, window 20, the collector is away",
    "paced": "Paced at 2,000 messages/s: microseconds from due to delivered, and to the PUBACK",
}


def _memory() -> list[Row]:
    def row(name: str, title: str, qos: int, publishers: int, collectors: int, *more: int, **load: float) -> Row:
        kinds = (MOSQUITTO, FOREBAY, INTERPRETED) if name in ("W1", "W2", "W3") else (MOSQUITTO, FOREBAY)
        shape = {"qos": qos, "publishers": publishers, "collectors": collectors, **load}
        return Row(name, title, "memory", shape, kinds, inflight=max(WINDOW, *more, 0))

    return [
        row("W1", "QoS 0, 1 -> 1", 0, 1, 1, ahead=8000),
        row("W2", "QoS 0, 1 -> 50", 0, 1, 50, ahead=2000),
        row("W3", "QoS 0, 50 -> 1", 0, 50, 1, ahead=8000),
        row("W4/20", "QoS 1, 1 -> 1, window 20", 1, 1, 1, window=20, ahead=800),
        row("W4/200", "QoS 1, 1 -> 1, window 200", 1, 1, 1, 200, window=200, ahead=800),
        row("W7", "QoS 1, 50 -> 1, window 1", 1, 50, 1, window=1, ahead=800),
        row("W8", "QoS 1, 1 -> 1, one at a time", 1, 1, 1, window=1, ahead=1),
        row("W9", "QoS 0, 50 -> 1, paced 20,000/s", 0, 50, 1, rate=20_000),
        row("M/20x20", "QoS 1, 20 -> 1, window 20", 1, 20, 1, 1000, window=20, ahead=800),
        # no more on their way than on/20x20 can have, where a publish is answered when its receiver has answered
        row("M/400", "the same, 400 in flight", 1, 20, 1, 1000, window=20, ahead=400),
    ]


SHAPES: Final = ((1, 1), (20, 1), (1, 20), (20, 20), (50, 200))


def _durable() -> list[Row]:
    rows = []
    for publishers, window in SHAPES:
        shape = {"qos": 1, "publishers": publishers, "window": window}
        name, title = f"{publishers}x{window}", f"{publishers} publishers, window {window}"
        kinds = (MOSQUITTO, FOREBAY, AUTOSAVE) if (publishers, window) == (20, 20) else (MOSQUITTO, FOREBAY)
        rows.append(Row(f"off/{name}", title, "offline", {**shape, "away": 1}, kinds, mosquitto=PERSISTENCE))
        online = {**shape, "collectors": 1, "persistent": 1, "ahead": max(800, publishers * window)}
        rows.append(Row(f"on/{name}", title, "online", online, mosquitto=PERSISTENCE, inflight=10_000))
    slow = {"qos": 1, "publishers": 20, "window": 20, "collectors": 1, "slow": 1, "persistent": 1, "ahead": 800}
    title = "20x20, and a second collector that answers after 100 ms"
    rows.append(Row("slow", title, "online", slow, mosquitto=PERSISTENCE, inflight=1000))
    title = "the same, commit window 0"
    rows.append(Row("slow/0", title, "online", slow, (FOREBAY,), {"store.commit_window_ms": 0}, inflight=1000))
    return sorted(rows, key=lambda row: row.group)


def _sparkplug() -> list[Row]:
    shape = {"qos": 1, "publishers": 20, "window": 20, "away": 1}
    off = {"bridge.enabled": False}
    return [
        Row(
            "spb/off",
            "NDATA at QoS 1, the bridge switched off",
            "sparkplug",
            {**shape, "sparkplug": 1},
            (FOREBAY,),
            off,
        ),
        Row("spb", "the same, ingested", "sparkplug", {**shape, "sparkplug": 1}, (FOREBAY,)),
    ]


def _paced() -> list[Row]:
    shape = {"publishers": 1, "collectors": 1, "rate": 2000}
    durable = {**shape, "qos": 1, "persistent": 1}
    return [
        Row("W6/0", "QoS 0, 1 -> 1", "paced", {**shape, "qos": 0}),
        Row("W6/1", "QoS 1, 1 -> 1, session in memory", "paced", {**shape, "qos": 1}, inflight=400),
        Row("W6/kept", "QoS 1, persistent collector", "paced", durable, mosquitto=PERSISTENCE, inflight=400),
        Row("W6/0ms", "the same, commit window 0", "paced", durable, (FOREBAY,), {"store.commit_window_ms": 0},
            inflight=400),
    ]  # fmt: skip


ROWS: Final = [*_memory(), *_durable(), *_sparkplug(), *_paced()]


def selected(only: str) -> list[Row]:
    """Rows by name or group, separated by commas; all when empty."""
    wanted = [word for word in only.split(",") if word]
    return [row for row in ROWS if not wanted or row.name in wanted or row.group in wanted]
