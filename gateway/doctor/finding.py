"""What the doctor says: findings, flows and the report that holds them. ``as_dict`` is the shape of ``--json`` and of
the page; names may be added, none changes its meaning.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, final

ERROR: Final = "error"  # messages are lost in an outage that is to be covered
WARNING: Final = "warning"  # lost in rarer cases, or late, twice, or at a cost
NOTE: Final = "note"  # good to know; no finding for the exit code
SEVERITIES: Final = (ERROR, WARNING, NOTE)  # the worst first

PUBLISHER: Final = "publisher"
COLLECTOR: Final = "collector"
GATEWAY: Final = "gateway"
NETWORK: Final = "network"

# when messages are lost
ALWAYS: Final = "always"
COLLECTOR_AWAY: Final = "collector_away"  # what comes while the collector is away
AWAY_TOO_LONG: Final = "collector_away_too_long"  # the same, beyond a limit below the outage that is to be covered
GATEWAY_DOWN: Final = "gateway_down"  # what the publisher makes while it cannot reach the gateway
GATEWAY_KILLED: Final = "gateway_killed"  # what the gateway has taken before it was killed
POWER_CUT: Final = "power_cut"
DEAD_LINK: Final = "dead_link"  # what is sent into a link that nobody knows is dead
LOSSES: Final = (ALWAYS, COLLECTOR_AWAY, AWAY_TOO_LONG, GATEWAY_DOWN, GATEWAY_KILLED, POWER_CUT, DEAD_LINK)

YES: Final = "yes"
NO: Final = "no"
ONLY_WHILE: Final = "only_while"


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and the one setting that puts it right.

    ``publisher``, ``topic`` and ``collector`` say whose flows it touches: "" = all.
    """

    code: str
    severity: str
    what: str
    why: str
    setting: str  # what to set: "qos = 1"
    where: str  # on whose machine: one of the four roles
    machine: str  # the same by name and address
    publisher: str = ""
    topic: str = ""
    collector: str = ""
    loses: tuple[str, ...] = ()  # empty = nothing is lost by it
    only_while: str = ""  # ends the sentence "buffered only while ..."


@final
@dataclass(frozen=True, slots=True)
class Flow:
    """Topics of one publisher that lead to one collector: is a message buffered from end to end?"""

    publisher: str
    topics: tuple[str, ...]  # some of them
    topic_count: int
    collector: str
    publish_qos: tuple[int, ...]  # seen
    subscription_qos: int
    qos: int  # the lowest at which messages are delivered
    buffered: str  # "yes", "no", "only_while"
    because: str
    loses: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()  # codes


@final
@dataclass(frozen=True, slots=True)
class Report:
    outage_s: int  # that is to be covered
    flows: list[Flow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    flows_left_out: int = 0  # of too many: those that are buffered, first
    topics_left_out: int = 0  # that were not looked at

    def counts(self) -> dict[str, int]:
        """How many findings of each severity."""
        return {severity: sum(f.severity == severity for f in self.findings) for severity in SEVERITIES}

    def as_dict(self) -> dict[str, Any]:
        return {
            "outage_s": self.outage_s,
            "flows": [_plain(flow) for flow in self.flows],
            "findings": [_plain(finding) for finding in self.findings],
            "flows_left_out": self.flows_left_out,
            "topics_left_out": self.topics_left_out,
            "counts": self.counts(),
        }


def _plain(row: Finding | Flow) -> dict[str, Any]:
    """By field; quicker than asdict(), which copies what cannot change."""
    return {name: getattr(row, name) for name in row.__slots__}


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then by machine; each once."""
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda f: (SEVERITIES.index(f.severity), f.where, f.machine, f.code))
