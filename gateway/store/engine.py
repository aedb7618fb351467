"""What an engine that keeps the log of the APPLICATIONs can do (docs/engines.md).

With ``application_log.engine = "sqlite"`` there is none: the log is the one in the store here, and these verbs are the
core's own (append: a commit; read: a read ahead; ack: a cursor; trim: a segment that nobody needs).
All methods run on the event loop; only the driver calls them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from gateway.core.topics import matches


class EngineError(Exception):
    """One line for an operator."""


class EngineDown(EngineError):
    """Not now: connect() and try again."""


class EngineRefused(EngineError):
    """Not before somebody changes something: version, rights, settings."""


class CursorTaken(EngineError):
    """Another gateway reads for this application now."""


class Record(NamedTuple):
    """What is kept of a PUBLISH."""

    topic: str
    payload: bytes
    qos: int  # 0 or 1
    retain: bool  # it was published with RETAIN
    props: bytes  # the encoded properties of MQTT 5 that go along, without their length
    expires_ms: int  # UTC, 0 = never


class Entry(NamedTuple):
    """A record as a cursor has it; positions grow along the cursor."""

    position: int
    record: Record


class Cursor(Protocol):
    """One application's place in the log: each message is settled by itself."""

    @property
    def before(self) -> Sequence[str]:
        """Filters that it had before it was opened; what they match is kept until narrow()."""

    async def read(self, most: int, wait_s: float) -> list[Entry]:
        """At most about so many, in order; none twice. What no filter matches may be among them.

        [] when nothing came in that time. Raises EngineDown and CursorTaken.
        """

    def ack(self, position: int) -> None:
        """It is settled; in any order."""

    async def committed(self) -> None:
        """All that was settled before this call is kept as such by the engine. Raises EngineDown."""

    async def narrow(self, filters: Sequence[str]) -> None:
        """Its filters are these from now on; what is appended after the call is matched by them."""

    async def resume(self) -> None:
        """After EngineDown and connect(): read() goes on behind what it has given. Raises EngineDown, CursorTaken."""

    async def lag(self) -> int:
        """Messages that were not read yet."""

    async def close(self) -> None:
        """Nobody reads any more here; what is not settled comes again to whoever opens it."""


class Engine(Protocol):
    """A log beyond this machine."""

    @property
    def name(self) -> str:
        """As in the settings."""

    @property
    def largest(self) -> int:
        """Bytes of a payload that it takes, 0 = any; known after connect()."""

    async def connect(self) -> None:
        """Everything is checked and made that is needed. Raises EngineDown and EngineRefused."""

    async def append(self, number: int, records: Sequence[Record], kept: Callable[[int], None]) -> None:
        """Keep these, in this order; when it returns each is where the engine's promise puts it.

        ``number`` is that of the first one; a record that is given again has the same. ``kept(n)``: the first n are
        kept. Raises EngineDown; then the others are given again after connect(), from the first that is not kept on,
        and nothing behind a record that is not kept has been.
        """

    async def declare(self, application: str, filters: Sequence[str], earliest: bool) -> None:
        """It has a place in the log from now on, if it had none; nobody reads yet."""

    async def open(self, application: str, filters: Sequence[str], earliest: bool, fresh: bool) -> Cursor:
        """Where it stood, whoever read it, else at the end or at the ``earliest``; ``fresh``: wherever it stood."""

    async def forget(self, application: str, wherever: bool) -> None:
        """Its session has ended: the place that was made here goes, or every one (``wherever``)."""

    async def trim(self) -> None:
        """What every application has is deleted."""

    async def stats(self) -> dict[str, Any]:
        """For ``forebay status``: messages, bytes, and what else it can tell."""

    async def close(self) -> None:
        """The connection ends; nothing raises."""


def wanted(filters: Sequence[str], topic: str) -> bool:
    """Whether one of the filters matches."""
    return any(matches(filter, topic) for filter in filters)
