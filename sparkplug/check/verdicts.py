"""What came of each requirement: how often it was met, and what did not meet it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from sparkplug.check.table import PREFIX, REQUIREMENTS

_EVIDENCE_MAX: Final = 5


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_EXERCISED = "not exercised"


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement: ``met`` and ``unmet`` count the occasions, ``evidence`` holds the first of those unmet."""

    id: str
    role: str
    level: str
    what: str
    outcome: Outcome
    met: int
    unmet: int
    evidence: tuple[str, ...]


@final
class Verdicts:
    """Collected as traffic passes; ids are written without the prefix that all have."""

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()
        self._unmet: Counter[str] = Counter()
        self._evidence: dict[str, list[str]] = {}

    def expect(self, good: bool, why: str, *ids: str) -> bool:
        """An occasion for these requirements; ``why`` says what was wrong if it was not ``good``."""
        for id in ids:
            assert id in REQUIREMENTS, id
            if good:
                self._met[id] += 1
                continue
            self._unmet[id] += 1
            evidence = self._evidence.setdefault(id, [])
            if len(evidence) < _EVIDENCE_MAX:
                evidence.append(why)
        return good

    def met(self, *ids: str) -> None:
        self.expect(True, "", *ids)

    def unmet(self, why: str, *ids: str) -> None:
        self.expect(False, why, *ids)

    def failed(self, ids: Iterable[str]) -> bool:
        return any(self._unmet[id] for id in ids)

    def exercised(self, id: str) -> bool:
        return bool(self._met[id] or self._unmet[id])

    def findings(self) -> list[Finding]:
        """All requirements, in the order of the table."""
        return [
            Finding(
                PREFIX + id,
                one.role,
                one.level,
                one.what,
                Outcome.FAIL if self._unmet[id] else Outcome.PASS if self._met[id] else Outcome.NOT_EXERCISED,
                self._met[id],
                self._unmet[id],
                tuple(self._evidence.get(id, ())),
            )
            for id, one in REQUIREMENTS.items()
        ]
