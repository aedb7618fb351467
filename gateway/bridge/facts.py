"""What was seen of one Sparkplug edge node on the wire: filled by the observer, judged by the ladder."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

DATA: Final = ("NDATA", "DDATA")
LOSS_WINDOWS_MAX: Final = 100  # kept for each node; the oldest go first


@dataclass(slots=True)
class LossWindow:
    """A stretch of time in which messages of a node may be lost, or are known to be: wall clock, ms since 1970."""

    from_ms: int
    to_ms: int
    why: str  # "seq_gap"; "connection": from its last message on a link that ended; "restart": of the gateway
    messages: int | None = None  # lost for certain (from seq); None = not known


@dataclass(slots=True)
class NodeFacts:
    """Of one edge node, its devices included. A value that was not seen yet is None; counters only grow."""

    node: str  # "group/edge node"
    client_id: str = ""  # of the last connection that published for it
    mqtt_version: int | None = None  # 3, 4 or 5
    make: str = ""  # Properties/Hardware Make of the last NBIRTH, and its kin
    model: str = ""
    firmware: str = ""
    qos: dict[str, list[int]] = field(default_factory=dict)  # "NDATA" -> how many came at QoS 0, 1, 2
    since: dict[str, list[int]] = field(default_factory=dict)  # ``qos`` at the last mark()
    clean: bool | None = None  # clean session, or clean start with no session expiry, of the last CONNECT
    connects: int = 0
    client_ids: int = 0  # different client ids over all connects: 1 = stable
    keep_alive_s: int | None = None  # of the last CONNECT; 0 = none
    will_qos: int | None = None  # of the NDEATH will; None = it has none, or nothing was seen
    bdseq_match: int = 0  # births whose bdSeq was that of the will
    bdseq_differ: int = 0
    seq_gaps: int = 0  # holes still open when their timer ended
    resends: int = 0  # came again on a later connection: same topic and payload hash
    rebirths_asked: int = 0
    rebirths_answered: int = 0
    historical: int = 0  # messages with an is_historical metric
    loss_windows: list[LossWindow] = field(default_factory=list)

    def lost(self, window: LossWindow) -> None:
        """Remember a window; of too many the oldest go."""
        self.loss_windows.append(window)
        del self.loss_windows[:-LOSS_WINDOWS_MAX]

    def mark(self) -> None:
        """From here on the QoS may be another: it connects anew, or was told to change it."""
        self.since = {name: list(counts) for name, counts in self.qos.items()}

    def data_qos(self) -> int | None:
        """The lowest QoS at which NDATA and DDATA came since the mark, or at all when none came since.

        What an outage on the way to the gateway costs depends on it. None when no data came yet.
        """
        now = _lowest([_since(self.qos[name], self.since.get(name)) for name in DATA if name in self.qos])
        return now if now is not None else _lowest([self.qos[name] for name in DATA if name in self.qos])

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and the store."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The facts that as_dict() gave; of another version's, unknown names are left out."""
        known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        windows = [LossWindow(**window) for window in known.pop("loss_windows", ())]
        return cls(**known, loss_windows=windows)


def _since(counts: list[int], before: list[int] | None) -> list[int]:
    return counts if before is None else [now - then for now, then in zip(counts, before, strict=True)]


def _lowest(counts: list[list[int]]) -> int | None:
    return next((qos for qos in (0, 1, 2) if any(count[qos] > 0 for count in counts)), None)
