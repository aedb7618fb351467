"""What must hold after a drill: what the nodes sent, what two collectors got, and what the gateway says it missed."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, final

from tests.drill.record import HISTORICAL, NBIRTH, SKIPPED, Delivered, Sent

WILL: Final = -1  # in place of an index
SLACK_MS: Final = 50  # between two readings of the wall clock
DELAY_S: Final = 3.0  # of a request on a busy machine


class Window(NamedTuple):
    """A stretch in which messages of a node were lost before ingest: UTC ms of the gateway.

    ``from_max``: it must not begin later. ``lost``: as the node knows it.
    """

    why: str
    from_min: int
    from_max: int
    to: int
    lost: int


class Line(NamedTuple):
    """One sentence of the verdict, and what breaks it."""

    what: str
    faults: list[str]


class Told(NamedTuple):
    """All there is to judge by.

    ``there`` was connected all the time, ``away`` came back when ``there`` had ``at_return`` messages and the gateway
    said that ``queued`` waited. ``facts`` are the gateway's rows by node.
    """

    sent: list[Sent]
    there: list[Delivered]
    away: list[Delivered]
    at_return: int
    queued: int
    facts: dict[str, dict[str, Any]]
    rebirths_per_minute: int
    rebirths_burst: int


@final
class Account:
    """One node: what of its messages was delivered, and where the others are."""

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self.delivered = 0
        self.deaths = 0  # of these by will
        self.late = 0
        self.windows: list[Window] = []
        self.reborn = 0  # on the connection on which it was born
        self.faults: dict[str, list[str]] = {"order": [], "deaths": [], "late": [], "rebirths": []}
        self._hole = False  # since the last birth
        self._last_live = 0  # received: of the last message in order
        self._session = -1
        self._index = -1  # of the last one delivered in its session
        self._dead = False  # the will of the session has come
        self._open: Window | None = None  # the next birth ends it, and says why it was
        self._open_run = 0

    def take(self, session: int, index: int, one: Delivered) -> None:
        """The next message of the node; ``index`` WILL for the death by will."""
        if session < self._session or (session == self._session and self._dead):
            self._fault("order", f"session {session} goes on after it was over, at id {one.id}")
            return
        if session > self._session:
            self._end(session)
            self._session, self._index, self._dead = session, -1, False
        if index == WILL:
            self._dead = True
            self.deaths += 1
            self.delivered += 1
            self._note_late(one, False)
            return
        self._place(session, index, one)
        if self.sent.sessions[session].flags[index] & NBIRTH:
            self._born(index)
        self._index = index
        self.delivered += 1
        historical = bool(self.sent.sessions[session].flags[index] & HISTORICAL)
        self._note_late(one, historical)
        if not one.late:
            self._last_live = one.received

    def finish(self) -> None:
        """No more comes."""
        self._end(len(self.sent.sessions))
        last = self.sent.sessions[-1]
        if not last.goodbye or self._session != len(self.sent.sessions) - 1:
            self._fault("order", "its goodbye did not come")

    @property
    def lost(self) -> int:
        return sum(window.lost for window in self.windows)

    def _place(self, session: int, index: int, one: Delivered) -> None:
        known = self.sent.sessions[session]
        between = range(self._index + 1, index)
        if index <= self._index:
            self._fault("order", f"message {index} of session {session} after {self._index}")
        elif missing := [i for i in between if not known.flags[i] & SKIPPED]:
            self._fault("order", f"messages {missing[:5]} of session {session} were passed over at id {one.id}")
        elif between:
            self.windows.append(Window("seq_gap", self._last_live, self._last_live, one.received, len(between)))
            self._hole = True
        if self._open is not None:
            if self._open_run == known.run:
                window = self._open._replace(why="connection", from_min=self._open.from_min, to=one.received)
                self.windows.append(window._replace(from_max=window.from_min))
            else:
                self.windows.append(self._open._replace(from_min=0, to=one.received))
            self._open = None

    def _born(self, index: int) -> None:
        """A hole takes one rebirth, unless the connection is lost before, and nothing else does."""
        if index:
            self.reborn += 1
            if not self._hole:
                self._fault("rebirths", "born again without a reason")
        self._hole = False

    def _end(self, next_session: int) -> None:
        """The session is over: all that did not come of it is lost, and its will has come."""
        if self._session < 0:
            return
        over = self.sent.sessions[self._session]
        rest = range(self._index + 1, len(over.sent))
        if over.goodbye:
            if self._hole:
                self._fault("rebirths", "a hole at the end was never asked about")
            if rest:
                self._fault("order", f"{len(rest)} messages at the end of session {self._session} did not come")
            if self._dead:
                self._fault("deaths", f"its will came although it said goodbye in session {self._session}")
            return
        if not self._dead:
            self._fault("deaths", f"the will of session {self._session} did not come")
        lost = len(rest) + sum(len(one.sent) for one in self.sent.sessions[self._session + 1 : next_session])
        if self._open is None:
            first_lost = over.at[rest[0]] if rest else 0
            self._open = Window("restart", self._last_live, max(self._last_live, first_lost), 0, lost)
            self._open_run = over.run
        else:
            self._open = self._open._replace(lost=self._open.lost + lost)

    def _note_late(self, one: Delivered, historical: bool) -> None:
        self.late += one.late
        if one.late is not historical:
            self._fault("late", f"id {one.id} is {'' if one.late else 'not '}marked as late")

    def _fault(self, kind: str, text: str) -> None:
        self.faults[kind].append(f"{self.sent.name}: {text}")


def accounts(told: Told) -> tuple[list[Account], list[str]]:
    """What was delivered, by node; and what no node has sent, or what came twice."""
    known: dict[int, tuple[int, int, int]] = {}
    for number, sent in enumerate(told.sent):
        for at, session in enumerate(sent.sessions):
            known[session.will] = number, at, WILL
            for index, each in enumerate(session.sent):
                known[each] = number, at, index
    found = [Account(sent) for sent in told.sent]
    strange, seen = [], set()
    for one in told.away:
        place = known.get(one.digest)
        if place is None or one.digest in seen:
            strange.append(f"id {one.id} is {'of no node' if place is None else 'here already'}")
            continue
        seen.add(one.digest)
        number, at, index = place
        found[number].take(at, index, one)
    for account in found:
        account.finish()
    return found, strange


def judge(told: Told, found: Sequence[Account], strange: list[str]) -> list[Line]:
    """The verdict, a line for each promise."""
    ids = [one.id for one in told.away]
    order = [f"id {b} after {a}" for a, b in pairwise(ids) if b <= a]
    times = [
        f"id {b.id} was received before {a.id}" for a, b in pairwise(told.away) if b.received < a.received - SLACK_MS
    ]
    return [
        Line("ingest ids only grow, and so does the time of receipt", order + times),
        Line("nothing is lost after ingest", list(_lost_after_ingest(told))),
        Line("every message is one of its node, byte for byte, once", strange),
        Line("each node's messages come in its order, births before data", _all(found, "order")),
        Line("each lost connection has its death", _all(found, "deaths")),
        Line("late is what the nodes kept and sent afterwards", _all(found, "late")),
        Line("the gateway lists the windows in which messages were lost, and no others", list(_windows(told, found))),
        Line("a rebirth is asked for once for each hole, within the budget", list(_rebirths(told, found))),
        Line("the nodes had nothing to object to", [fault for sent in told.sent for fault in sent.faults]),
    ]


def _all(found: Sequence[Account], kind: str) -> list[str]:
    return [fault for account in found for fault in account.faults[kind]]


def _lost_after_ingest(told: Told) -> Iterator[str]:
    """An id that one collector has seen was on disk."""
    there, away = {one.id: one.digest for one in told.there}, {one.id: one.digest for one in told.away}
    for id in sorted(there.keys() - away.keys())[:5]:
        yield f"id {id} did not come to the collector that was away"
    for id in sorted(away.keys() - there.keys())[:5]:
        yield f"id {id} did not come to the collector that was there"
    differ = [id for id, digest in away.items() if there.get(id, digest) != digest]
    yield from (f"id {id} is two messages" for id in differ[:5])
    if told.queued != told.at_return:
        yield f"{told.queued} messages waited for the collector when {told.at_return} were ingested"


def _windows(told: Told, found: Sequence[Account]) -> Iterator[str]:
    for account in found:
        name = account.sent.name
        listed = told.facts[name]["loss_windows"] if name in told.facts else []
        said = [f"{one['why']} {one['from_ms']}-{one['to_ms']}" for one in listed]
        if [one["why"] for one in listed] != [window.why for window in account.windows]:
            wanted = [f"{window.why} {window.from_max}-{window.to}" for window in account.windows]
            yield f"{name}: listed are {said}, known are {wanted}"
            continue
        for text, one, window in zip(said, listed, account.windows, strict=True):
            early = one["from_ms"] < window.from_min - SLACK_MS
            if early or one["from_ms"] > window.from_max + SLACK_MS or abs(one["to_ms"] - window.to) > SLACK_MS:
                yield f"{name}: {text} is not {window.from_min}..{window.from_max}-{window.to}"
            if window.why == "seq_gap" and one["messages"] != window.lost:
                yield f"{name}: {text} says {one['messages']} messages, {window.lost} are missing"


def _rebirths(told: Told, found: Sequence[Account]) -> Iterator[str]:
    runs = {run for sent in told.sent for run in sent.asked}
    for run in sorted(runs):
        times = sorted(at for sent in told.sent for at in sent.asked.get(run, ()))
        for i, start in enumerate(times):
            for j, end in enumerate(times[i:], 1):
                budget = told.rebirths_burst + (end - start + DELAY_S) / 60 * told.rebirths_per_minute
                if j > budget:
                    yield f"{j} were asked for in {end - start:.1f} s of run {run}, {budget:.1f} is the budget"
                    return
    for account in found:
        facts, came = told.facts.get(account.sent.name, {}), account.sent.requests
        asked, answered = facts.get("rebirths_asked"), facts.get("rebirths_answered")
        if not asked == answered == came == account.reborn:
            yield f"{account.sent.name}: {asked} requests, {came} came, {account.reborn} births, {answered} answered"
    yield from _all(found, "rebirths")
