"""The births of one edge node and its devices by the time from which they hold: an alias means what the birth in force
said when the message was sent, and may mean something else after the next one.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, final

from sparkplug.model import Metric
from sparkplug.source import Source

EPOCHS_MAX: Final = 4
"""Births kept of each source."""


class Birth(NamedTuple):
    """A birth: ``at`` is its timestamp, UTC in ms; ``data`` its bytes."""

    at: int
    topic: str
    data: bytes
    source: Source


@final
class Epochs:
    """Of one edge node (device None) and its devices."""

    def __init__(self) -> None:
        self._births: dict[str | None, list[Birth]] = {}
        self._current: dict[str | None, Birth] = {}

    def add(
        self, device: str | None, at: int, topic: str, data: bytes, metrics: Iterable[Metric], *, current: bool
    ) -> Source:
        """A birth; ``current``: in force from now on, whatever its time."""
        source = Source(device)
        source.replace(metric for metric in metrics if metric.name)
        birth = Birth(at, topic, data, source)
        births = self._births.setdefault(device, [])
        births[:] = [one for one in births if one.data != data]
        insort(births, birth, key=_at)
        if current:
            self._current[device] = birth
        if len(births) > EPOCHS_MAX:
            births.remove(next(one for one in births if one is not self._current.get(device)))
        return source

    def current(self, device: str | None) -> Birth | None:
        """The birth in force."""
        return self._current.get(device)

    def then(self, device: str | None, at: int | None) -> Source | None:
        """What was in force at that time (None: now); None when no birth of that time is known."""
        births = self._births.get(device, [])
        if at is None:
            birth = self._current.get(device) or (births[-1] if births else None)
            return None if birth is None else birth.source
        index = bisect_right(births, at, key=_at)
        return births[index - 1].source if index else None

    def __iter__(self) -> Iterator[Birth]:
        """All that are kept, those in force last of their source."""
        for device, births in self._births.items():
            current = self._current.get(device)
            yield from (birth for birth in births if birth is not current)
            if current is not None:
                yield current


def _at(birth: Birth) -> int:
    return birth.at
