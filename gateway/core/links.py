"""Connections that were dialled, and what comes of them."""

from typing import final

from gateway.core.message import Message
from gateway.core.model import Client, Delivery, Session
from gateway.core.uplink import BEAT, Event


@final
class Dead:
    """A message that a remote does not take; it stays in its queue until its copy in the dead letter is kept."""

    def __init__(self, session: Session, delivery: Delivery, reason: str, code: int) -> None:
        self.session = session
        self.delivery = delivery
        self.reason = reason  # of the drop
        self.code = code  # the remote's, 0 = it was never sent
        self.copy: Message | None = None


@final
class Uplinks:
    """Connections that were dialled, and what comes of them."""

    def __init__(self) -> None:
        self.calls: dict[str, Client] = {}  # by name, those being made too
        self.events: list[Event] = []
        self.dead: list[Dead] = []  # no copy yet
        self.buried: list[Dead] = []  # the copy is on its way to the disk
        self.mark: bytes = b""  # on what was handed on from here before; b"" = there are no uplinks
        self.origin: str = ""  # the name of this gateway to others
        self.hops_max: int = 0
        self.refused: dict[str, dict[int, int]] = {}  # by client id of the session: reason code -> how often

        self.too_large: dict[str, int] = {}  # by name: messages of a remote above our own limit
        self.careful: dict[str, int] = {}  # likewise: one at a time until so many are settled, to find a bad one

    def came_back(self, name: str, data: bytes) -> None:
        """A heartbeat."""
        event = Event(name, BEAT)
        event.data = data
        self.events.append(event)

    def dials_as(self, client_id: str) -> bool:
        """Whether one waits for the CONNACK to a CONNECT with this client id: then who gets such a one is itself.

        With 5.0 what goes out bears the name of this gateway; with 3.1.1 it would go round for ever.
        """
        for c in self.calls.values():
            if c.session is None and c.remote is not None and c.remote.login.client_id == client_id:
                return True
        return False

    def count(self, s: Session, reason: int) -> None:
        """The remote has refused a message."""
        counts = self.refused.setdefault(s.client_id, {})
        counts[reason] = counts.get(reason, 0) + 1
