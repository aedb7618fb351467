"""The metrics of one source: an edge node itself or one of its devices, by name and by alias."""

from collections.abc import Iterable
from typing import Final, final

from sparkplug.model import Metric, Template

REBIRTH: Final = "Node Control/Rebirth"
BD_SEQ: Final = "bdSeq"


@final
class Source:
    """What a birth named, with the latest live values. Of ``device`` None: the node itself."""

    __slots__ = ("at", "by_alias", "device", "metrics", "online", "types")

    def __init__(self, device: str | None) -> None:
        self.device = device
        self.metrics: dict[str, Metric] = {}
        self.by_alias: dict[int, Metric] = {}
        self.types: dict[int | str, int] = {}  # what payload.decode needs for metrics without a datatype
        self.online = False  # False: every metric is stale
        self.at = 0  # UTC ms: since when it is on- or offline

    def add(self, metric: Metric) -> None:
        assert metric.name is not None
        self.metrics[metric.name] = metric
        self.types[metric.name] = metric.datatype
        if metric.alias is not None:
            self.by_alias[metric.alias] = metric
            self.types[metric.alias] = metric.datatype

    def replace(self, metrics: Iterable[Metric]) -> None:
        """The metrics of a birth in place of the former ones."""
        self.metrics, self.by_alias, self.types = {}, {}, {}
        for metric in metrics:
            self.add(metric)

    def find(self, metric: Metric) -> Metric | None:
        """The metric of the birth that is meant, by its alias or else its name."""
        if metric.alias is not None:
            found = self.by_alias.get(metric.alias)
            if found is not None or metric.name is None:
                return found
        return self.metrics.get(metric.name) if metric.name is not None else None


def bd_seq_of(metrics: Iterable[Metric]) -> int | None:
    """The bdSeq of a birth or death; Int64, or UInt64 as before 3.0."""
    for metric in metrics:
        if metric.name == BD_SEQ and isinstance(metric.value, int) and not isinstance(metric.value, bool):
            return metric.value
    return None


def asks_rebirth(metrics: Iterable[Metric]) -> bool:
    """A command holds the request for a rebirth [tck-id-operational-behavior-data-commands-ncmd-rebirth-value]."""
    return any(metric.name == REBIRTH and metric.value is True for metric in metrics)


def name_fault(metrics: Iterable[Metric]) -> str | None:
    """Why the metrics of a birth cannot be told apart by name; None when they can."""
    names: set[str] = set()
    for metric in metrics:
        if not metric.name:
            return "a metric has no name"
        if metric.name in names:
            return f"two metrics are named {metric.name!r}"
        names.add(metric.name)
    return None


def update(current: Metric, metric: Metric, at: int | None) -> None:
    """The live value becomes that of a data message; ``at`` is the payload's time, for a metric without one."""
    value = metric.value
    if isinstance(value, Template) and isinstance(current.value, Template):
        value = _merged(current.value, value)
    current.value = value
    current.is_null = metric.is_null
    current.timestamp = at if metric.timestamp is None else metric.timestamp
    if metric.properties is not None:
        current.properties = metric.properties


def _merged(whole: Template, part: Template) -> Template:
    """In data an instance may hold some of its members only [tck-id-payloads-template-instance-members-data]."""
    members = {member.name: member for member in whole.metrics} | {member.name: member for member in part.metrics}
    parameters = {one.name: one for one in whole.parameters} | {one.name: one for one in part.parameters}
    return Template(
        part.version or whole.version,
        list(members.values()),
        list(parameters.values()),
        part.template_ref or whole.template_ref,
        part.is_definition,
    )
