"""What is known of an engine that keeps the log of the APPLICATIONs in place of the store here (docs/engines.md)."""

from typing import TYPE_CHECKING, Final, NamedTuple, final

from mypy_extensions import i64

from gateway.core.topics import matches

if TYPE_CHECKING:
    from gateway.core.model import Client, Session

ENGINE_ID: Final = (
    "$engine"  # of the session whose cursor on the log here is the engine's; no client may come in with it
)

# kinds of events
KNOWN: Final = "known"  # at the start: an APPLICATION with these filters, not connected
OPENED: Final = "opened"  # it has come; ``fresh``: it wants nothing of what was before
FILTERS: Final = "filters"  # they are these from now on
CLOSED: Final = "closed"  # its connection has ended
ENDED: Final = "ended"  # its session has; ``fresh``: wherever it is known


@final
class EngineEvent:
    """Something about an APPLICATION that the engine must hear of, in its order."""

    def __init__(self, kind: str, client_id: str, filters: list[str], fresh: bool) -> None:
        self.kind = kind
        self.client_id = client_id
        self.filters = filters
        self.fresh = fresh


class Arrived(NamedTuple):
    """A message from the engine for one APPLICATION, at its position there; ``deadline`` in gateway ms, 0 = never."""

    position: int
    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    props: bytes
    deadline: int


@final
class EngineState:
    """Of the core; ``on`` is False where the log is the one in the store."""

    def __init__(self) -> None:
        self.on: bool = False
        self.capture: list[str] = []
        self.writer: Session | None = None
        self.client: Client | None = None  # of the writer, while the engine takes messages
        self.drained: i64 = 0  # messages of the store here that the engine has
        self.recorded: i64 = 0  # of these: a crash does not give them again
        self.news: bool = False  # that has changed
        self.events: list[EngineEvent] = []
        self.settled: list[tuple[str, int]] = []  # client id, position

    def captures(self, topic: str) -> bool:
        """Whether APPLICATIONs get this topic from the engine."""
        for filter in self.capture:
            if matches(filter, topic):
                return True
        return False

    def tell(self, kind: str, client_id: str, filters: list[str], fresh: bool = False) -> None:
        """One about the same filters takes the place of the last."""
        events = self.events
        if kind == FILTERS and events and events[-1].kind == FILTERS and events[-1].client_id == client_id:
            events.pop()
        events.append(EngineEvent(kind, client_id, filters, fresh))

    def busy(self) -> bool:
        """Whether there is something for the driver."""
        c = self.client
        return self.news or bool(self.events) or bool(self.settled) or (c is not None and (c.out.size > 0 or c.closing))
