"""What became of the messages that a device made while its link was gone: by a counter, else by their time stamps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final, final

from gateway.bridge.sightings import DATA, Message

SLACK_MS: Final = 250  # between a device's clock and what a message needs to come
WITH_SEQ: Final = ("NBIRTH", "DBIRTH", "NDATA", "DDATA", "DDEATH")


@final
@dataclass(frozen=True, slots=True)
class Window:
    """``messages[start:]`` came since the cut; all times gateway ms."""

    start: int
    cut_at: int
    back_at: int
    making_ms: int  # for so long after the cut the device surely went on making data
    end_at: int  # until then it was looked


@final
@dataclass(slots=True)
class Outage:
    """None = not known."""

    away_ms: int = 0
    made: int | None = None  # data made from the cut to the last that came
    missing: int | None = None  # of them
    late: int = 0  # counts, or messages where nothing counts, that came afterwards and were made within the outage
    dropped: str | None = None  # of what is missing: "oldest" or "newest" were given up
    historical: int = 0
    original_timestamps: bool | None = None
    before_birth: int = 0  # of the late ones
    order: str | None = None  # "history_first", "live_first", "mixed"
    seq_given: str | None = None  # "enqueue", "send"
    seq_gaps: bool | None = None
    idle: bool = False  # the counter stood still while it was away

    @property
    def complete(self) -> bool | None:
        """Whether everything arrived."""
        return None if self.missing is None else self.missing == 0


def account(messages: Sequence[Message], window: Window, counter: str | None, interval_ms: int) -> Outage:
    """What became of what was made within the window. ``interval_ms`` is the usual time between two data messages."""
    outage = Outage(away_ms=window.back_at - window.cut_at)
    before = [message for message in messages[: window.start] if message.type in DATA]
    since = [message for message in messages[window.start :] if message.type in DATA]
    offset = _offset(before)
    if counter is not None:
        late = _by_counter(outage, before, since, window, counter, interval_ms, offset)
    else:
        late = _by_time(outage, since, window, interval_ms, offset)
        outage.late = len(late)
    outage.historical = sum(message.historical for message in since if message.at >= window.back_at)
    if late and offset is not None:
        outage.original_timestamps = all(_made(message, offset) < window.back_at - SLACK_MS for message in late)
    _place(outage, messages, window, late)
    return outage


def _offset(before: Sequence[Message]) -> int | None:
    """Gateway ms minus the device's clock, from messages that came as they were made."""
    found = [message.at - message.made_at for message in before[-20:] if message.made_at is not None]
    return int(median(found)) if found else None


def _made(message: Message, offset: int) -> int:
    """Gateway ms; that of its arrival where it does not say."""
    return message.at if message.made_at is None else message.made_at + offset


def _by_counter(
    outage: Outage, before: Sequence[Message], since: Sequence[Message], window: Window, counter: str,
    interval_ms: int, offset: int | None,
) -> list[Message]:  # fmt: skip
    """Which counts are there? The late messages are returned."""
    counts_before = [count for message in before for count in message.integers.get(counter, ())]
    counted = [message for message in since if counter in message.integers]
    if not counts_before or not counted:
        return []
    last = counts_before[-1]
    made = {count for message in counted for count in message.integers[counter]}
    back = [message for message in counted if message.at >= window.back_at]
    restarted = any(min(message.integers[counter]) < last for message in back if not _resent(message, before))
    highest = max(made)
    expected = (window.end_at - window.cut_at) / interval_ms
    throughout = window.making_ms >= window.back_at - window.cut_at
    if throughout and not restarted and highest - last < expected - 0.5 * window.making_ms / interval_ms:
        outage.idle = True
        return []
    within = last + max(1, int(0.9 * window.making_ms / interval_ms))
    told = {id(one) for one in back if offset is not None and _made(one, offset) < window.back_at - SLACK_MS}
    late = [one for one in back if _among(one, counter, last, within) or (id(one) in told and not restarted)]
    late = [one for one in late if max(one.integers[counter]) > last]
    if restarted:  # it counts anew: what is late must say so by its time
        late = [one for one in late if id(one) in told]
    kept = {count for message in late for count in message.integers[counter] if count > last}
    outage.late = len(kept)
    if restarted:
        if offset is not None:
            outage.made = within - last
            outage.missing = len(set(range(last + 1, within + 1)) - kept)
        return late
    missing = set(range(last + 1, highest + 1)) - made
    outage.made, outage.missing = highest - last, len(missing)
    if missing and kept:
        outage.dropped = "oldest" if max(missing) < min(kept) else "newest" if min(missing) > max(kept) else None
    return late


def _among(message: Message, counter: str, low: int, high: int) -> bool:
    return any(low < count <= high for count in message.integers[counter])


def _resent(message: Message, before: Sequence[Message]) -> bool:
    """One that was there before the cut; how many may be under way at once bounds how far to look."""
    return any(message.digest == other.digest for other in before[-1000:])


def _by_time(
    outage: Outage, since: Sequence[Message], window: Window, interval_ms: int, offset: int | None
) -> list[Message]:
    """Without a counter: how many say by their time that they were made within?"""
    if offset is None:
        return [message for message in since if message.historical]
    edge = max(SLACK_MS, interval_ms)
    late = [
        message
        for message in since
        if message.at >= window.back_at
        and window.cut_at + edge < _made(message, offset) < min(window.back_at, window.cut_at + window.making_ms) - edge
    ]
    made = int(max(window.making_ms - 2 * edge, 0) / interval_ms)
    if made and (not late or len(late) >= 0.9 * made):
        outage.made = made
        outage.missing = 0 if late else made
    return late


def _place(outage: Outage, messages: Sequence[Message], window: Window, late: Sequence[Message]) -> None:
    """Where the late ones stand: against the new birth, the live data, and in seq."""
    session = [message for message in messages[window.start :] if message.at >= window.back_at]
    born = next((at for at, message in enumerate(session) if message.type == "NBIRTH"), None)
    if born is not None:
        numbers = [message.seq for message in session[born:] if message.type in WITH_SEQ and message.seq is not None]
        outage.seq_gaps = any((b - a) % 256 != 1 for a, b in pairwise(numbers))
    if not late:
        return
    late_ids = {id(message) for message in late}
    places = [at for at, message in enumerate(session) if id(message) in late_ids]
    outage.before_birth = sum(born is not None and at < born for at in places)
    live = [at for at, one in enumerate(session) if one.type in DATA and id(one) not in late_ids]
    if live:
        first, last = places[0], places[-1]
        outage.order = "history_first" if last < live[0] else "live_first" if live[0] < first else "mixed"
    outage.seq_given = _seq_given(messages[: window.start], session, places[0])


def _seq_given(before: Sequence[Message], session: Sequence[Message], at: int) -> str | None:
    """When the first late message got its seq: when it was queued, or when it was sent."""
    seq = session[at].seq
    ahead = [message.seq for message in session[:at] if message.type in WITH_SEQ and message.seq is not None]
    older = [message.seq for message in before if message.type in WITH_SEQ and message.seq is not None]
    if seq is None:
        return None
    if ahead and seq == (ahead[-1] + 1) % 256:
        return "send"
    if older and 0 < (seq - older[-1]) % 256 < 128:  # it goes on from the session before, perhaps with some lost
        return "enqueue"
    return None
