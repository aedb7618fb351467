"""Requirements on metrics: what a birth says of them, and whether data and commands keep to it.

Read from the protobuf message itself, since the model has already forgiven what is to be judged here.
"""

from dataclasses import dataclass
from typing import Any, Final, final

from sparkplug.check.structures import check_dataset, check_properties, check_template
from sparkplug.check.verdicts import Verdicts
from sparkplug.datatypes import DataType
from sparkplug.model import PayloadError
from sparkplug.reading import parse
from sparkplug.source import REBIRTH
from sparkplug.topic import MessageType

_DRIFT_MS: Final = 30 * 60_000  # a clock may be off by less than any time zone
_YEAR_2000: Final = 946_684_800_000
_INTEGERS: Final = ("int_value", "long_value")
FIELDS: Final[dict[int, tuple[str, ...]]] = {
    **dict.fromkeys(range(1, 9), _INTEGERS),
    DataType.Float: ("float_value",),
    DataType.Double: ("double_value",),
    DataType.Boolean: ("boolean_value",),
    **dict.fromkeys((DataType.String, DataType.Text, DataType.UUID), ("string_value",)),
    DataType.DateTime: ("long_value",),
    DataType.DataSet: ("dataset_value",),
    **dict.fromkeys((DataType.Bytes, DataType.File), ("bytes_value",)),
    DataType.Template: ("template_value",),
    **dict.fromkeys(range(DataType.Int8Array, DataType.DateTimeArray + 1), ("bytes_value",)),
}
_OF_NODE: Final = "nbirth", "ndata"
_OF_DEVICE: Final = "dbirth", "ddata"


def read(payload: bytes) -> Any:
    """The protobuf message, None when it is none."""
    try:
        return parse(payload)
    except PayloadError:
        return None


@final
@dataclass(slots=True)
class Known:
    """A metric of a birth, with the last value that was sent and its time."""

    name: str
    alias: int | None
    datatype: int
    value: object
    at: int


def value_of(metric: Any) -> object:
    field = metric.WhichOneof("value")
    if metric.is_null or field is None:
        return None
    value = getattr(metric, field)
    return value.SerializeToString() if hasattr(value, "SerializeToString") else value


@final
class Content:
    """The metrics of one edge node and its devices."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self.sources: dict[str | None, dict[str, Known]] = {}
        self._aliases: dict[int, tuple[str | None, str]] = {}
        self._definitions: dict[str, Any] | None = None

    def birth(self, device: str | None, where: str, message: Any, at: int) -> None:
        """Judge a birth, and know its metrics from now on."""
        verdicts, kind = self._verdicts, "nbirth" if device is None else "dbirth"
        if device is None:
            self.sources, self._aliases = {}, {}
            self._definitions = {
                metric.name: metric.template_value
                for metric in message.metrics
                if metric.WhichOneof("value") == "template_value" and metric.template_value.is_definition
            }
        self._aliases = {alias: owner for alias, owner in self._aliases.items() if owner[0] != device}
        known: dict[str, Known] = {}
        for metric in message.metrics:
            label = f"{where}: metric {metric.name!r}"
            field = metric.WhichOneof("value")
            valued = field is not None or metric.is_null
            whole = bool(metric.name) and metric.HasField("datatype") and valued
            verdicts.expect(whole, f"{label} lacks name, datatype or value", f"topics-{kind}-metrics")
            once = (field is None) == metric.is_null
            verdicts.expect(once, f"{label}: value or null", f"operational-behavior-data-publish-{kind}-values")
            verdicts.expect(metric.datatype != 0, f"{label} has no datatype", "payloads-metric-datatype-req")
            fits = metric.is_null or field in FIELDS.get(metric.datatype, ())
            verdicts.expect(
                fits and metric.datatype <= DataType.DateTimeArray,
                f"{label}: datatype {metric.datatype} with {field}",
                "payloads-metric-datatype-value-type",
                "payloads-metric-datatype-value",
            )
            if metric.HasField("alias"):
                verdicts.expect(bool(metric.name), f"{label}: alias alone", "payloads-alias-birth-requirement")
                free = metric.alias not in self._aliases
                verdicts.expect(free, f"{label}: alias {metric.alias} is taken", "payloads-alias-uniqueness")
                self._aliases[metric.alias] = (device, metric.name)
            verdicts.expect(bool(metric.name), f"{label} has no name", "payloads-name-requirement")
            alias = metric.alias if metric.HasField("alias") else None
            name = metric.name if isinstance(metric.name, str) else repr(metric.name)
            known[name] = Known(name, alias, metric.datatype, value_of(metric), metric.timestamp)
            self._check_value(metric, label, MessageType(kind.upper()), at)
        folded = {name.casefold() for name in known}
        verdicts.expect(
            len(folded) == len(known), f"{where}: names that differ by case", "case-sensitivity-metric-names"
        )
        self.sources[device] = known

    def data(self, device: str | None, where: str, message: Any, at: int) -> None:
        """Judge data against the birth, if that was seen."""
        verdicts, source = self._verdicts, self.sources.get(device)
        kind, birth = ("ndata", "nbirth") if device is None else ("ddata", "dbirth")
        verdicts.expect(len(message.metrics) > 0, f"{where}: no metrics", f"topics-{kind}-payload")
        changed, repeated, ordered = False, False, True
        for metric in message.metrics:
            known, label = self._known(source, metric, where)
            if source is not None:
                verdicts.expect(
                    known is not None,
                    f"{label} is not in the birth",
                    f"topics-{birth}-metric-reqs",
                    f"operational-behavior-data-publish-{birth}",
                )
            self._check_reference(metric, known, label)
            self._check_value(metric, label, MessageType(kind.upper()), at)
            if known is None or metric.is_historical:
                changed = True
                continue
            ordered = ordered and metric.timestamp >= known.at
            value = value_of(metric)
            changed = changed or value != known.value
            repeated = repeated or value == known.value
            known.value, known.at = value, metric.timestamp
        order = f"operational-behavior-data-publish-{birth}-order"
        verdicts.expect(ordered, f"{where}: values go back in time", order)
        soft = [f"operational-behavior-data-publish-{birth}-change"]
        soft += ["principles-rbe-recommended"] if device is None else []
        verdicts.expect(changed or not repeated, f"{where}: nothing changed", *soft)

    def command(self, device: str | None, where: str, message: Any, at: int) -> None:
        """Judge what a host wants to write."""
        verdicts, source = self._verdicts, self.sources.get(device)
        kind = "ncmd" if device is None else "dcmd"
        verdicts.expect(len(message.metrics) > 0, f"{where}: no metrics", f"topics-{kind}-payload")
        for metric in message.metrics:
            known, label = self._known(source, metric, where)
            if metric.HasField("timestamp"):
                verdicts.met("payloads-name-cmd-requirement")
            self._check_reference(metric, known, label)
            if source is None:
                continue
            ids = "operational-behavior-data-commands"
            verdicts.expect(known is not None, f"{label} is not in the birth", f"{ids}-{kind}-metric-name")
            if known is not None:
                field = metric.WhichOneof("value")
                fits = metric.is_null or field in FIELDS.get(known.datatype, ())
                verdicts.expect(fits, f"{label}: {field} for {known.datatype}", f"{ids}-{kind}-metric-value")
        rebirths = [metric for metric in message.metrics if metric.name == REBIRTH]
        for metric in rebirths:
            ids = "operational-behavior-data-commands-ncmd-rebirth"
            verdicts.expect(device is None, f"{where}: a DCMD asks for it", f"{ids}-verb")
            verdicts.met(f"{ids}-name")
            verdicts.expect(metric.boolean_value, f"{where}: its value is not true", f"{ids}-value")

    def _known(self, source: dict[str, Known] | None, metric: Any, where: str) -> tuple[Known | None, str]:
        """The metric of the birth that is meant, and how to call it."""
        label = f"{where}: metric {metric.name!r}" if metric.name else f"{where}: alias {metric.alias}"
        if source is None:
            return None, label
        if metric.name or not metric.HasField("alias"):
            return source.get(metric.name), label
        return next((one for one in source.values() if one.alias == metric.alias), None), label

    def _check_reference(self, metric: Any, known: Known | None, label: str) -> None:
        """How data and commands name their metrics."""
        verdicts = self._verdicts
        named = bool(metric.name) or metric.HasField("alias")
        verdicts.expect(named, f"{label}: neither name nor alias", "payloads-name-requirement")
        if known is not None and known.alias is not None:
            alone = metric.HasField("alias") and not metric.HasField("name")
            verdicts.expect(alone, f"{label}: not the alias alone", "payloads-alias-data-cmd-requirement")
        bare = not metric.HasField("datatype")
        verdicts.expect(bare, f"{label} has a datatype", "payloads-metric-datatype-not-req")

    def _check_value(self, metric: Any, label: str, type: MessageType, at: int) -> None:
        """Time, properties, data set and template of a metric in a birth or in data."""
        verdicts = self._verdicts
        timed = metric.HasField("timestamp")
        verdicts.expect(timed, f"{label} has no time", "payloads-name-birth-data-requirement")
        if timed:
            sane = _YEAR_2000 <= metric.timestamp <= at + _DRIFT_MS
            verdicts.expect(sane, f"{label}: time {metric.timestamp}", "payloads-metric-timestamp-in-UTC")
        born = type in (MessageType.NBIRTH, MessageType.DBIRTH)
        if metric.HasField("properties"):
            check_properties(verdicts, metric.properties, label, born)
        field = metric.WhichOneof("value")
        if field == "dataset_value":
            check_dataset(verdicts, metric.dataset_value, label)
        elif field == "template_value":
            check_template(verdicts, metric.template_value, label, type, self._definitions)


def check_sent(verdicts: Verdicts, type: MessageType, where: str, message: Any, at: int) -> None:
    """The time at which a message says that it was sent."""
    kind = type.lower()
    ids = [f"payloads-{kind}-timestamp"]
    if type is not MessageType.DDEATH:
        ids.append(f"topics-{kind}-timestamp")
    timed = message.HasField("timestamp")
    verdicts.expect(timed, f"{where}: no time", *ids)
    if timed:
        sane = abs(message.timestamp - at) <= _DRIFT_MS
        verdicts.expect(sane, f"{where}: time {message.timestamp}", "payloads-timestamp-in-UTC")
