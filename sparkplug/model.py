"""What a Sparkplug B payload says, as plain objects: what ``payload.decode`` returns and ``payload.encode`` takes.

Times are milliseconds since 1970 (UTC). ``unknown`` holds fields that the schema does not know, as they came, so that
they are still there when the payload is encoded again. ``wire`` is the number of the field in which a value came (0
when there was none); it shows which of the allowed or tolerated forms a sender uses and keeps a value without a
datatype in its field. Neither counts when two objects are compared, and those who build payloads leave both alone.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

NESTING_MAX: Final = 16
"""How deep templates may hold templates, and property sets property sets."""


class PayloadError(ValueError):
    """What is wrong with a payload, and where.

    ``reason`` says what; ``where`` names the place from outside to inside, like ``metric 'Motor', property 'p'``,
    or is empty when the payload as a whole is bad.
    """

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        self.where = where

    def within(self, place: str) -> "PayloadError":
        """The same error, said from one level further outside."""
        return PayloadError(self.reason, f"{place}, {self.where}" if self.where else place)


@dataclass(slots=True)
class PropertySet:
    """Named properties, in their order."""

    values: "dict[str, PropertyValue]" = field(default_factory=dict)
    unknown: bytes = field(default=b"", compare=False)


@dataclass(slots=True)
class PropertyValue:
    """A property: a basic datatype, a set of properties or a list of sets; the value is None when it is null."""

    type: int = 0
    value: "int | float | bool | str | PropertySet | list[PropertySet] | None" = None
    is_null: bool = False
    wire: int = field(default=0, compare=False)
    unknown: bytes = field(default=b"", compare=False)


@dataclass(slots=True)
class MetaData:
    """About a metric's value, for files above all. ``size`` in bytes; ``seq`` numbers the parts of a file."""

    is_multi_part: bool | None = None
    content_type: str | None = None
    size: int | None = None
    seq: int | None = None
    file_name: str | None = None
    file_type: str | None = None
    md5: str | None = None
    description: str | None = None
    unknown: bytes = field(default=b"", compare=False)


Cell: TypeAlias = int | float | bool | str | None


@dataclass(slots=True)
class DataSet:
    """A table: each row holds one value for each column, None where a cell has none."""

    columns: list[str] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    unknown: bytes = field(default=b"", compare=False)


@dataclass(slots=True)
class Parameter:
    """A parameter of a template: a basic datatype."""

    name: str
    type: int = 0
    value: Cell = None
    wire: int = field(default=0, compare=False)
    unknown: bytes = field(default=b"", compare=False)


@dataclass(slots=True)
class Template:
    """A definition, or an instance of the definition that ``template_ref`` names."""

    version: str | None = None
    metrics: "list[Metric]" = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    template_ref: str | None = None
    is_definition: bool = False
    unknown: bytes = field(default=b"", compare=False)


Value: TypeAlias = (
    int | float | bool | str | bytes | DataSet | Template | list[int] | list[float] | list[bool] | list[str] | None
)


@dataclass(slots=True)
class Metric:
    """A metric: its value has the Python type of its datatype, a list for arrays, None when it is null.

    ``datatype`` is a ``DataType``, a number that none is, or 0 where neither the payload nor its reader knows it; the
    value is then what its field holds, integers unsigned.
    """

    name: str | None = None
    alias: int | None = None
    timestamp: int | None = None
    datatype: int = 0
    value: Value = None
    is_historical: bool = False
    is_transient: bool = False
    is_null: bool = False
    metadata: MetaData | None = None
    properties: PropertySet | None = None
    wire: int = field(default=0, compare=False)
    unknown: bytes = field(default=b"", compare=False)


@dataclass(slots=True)
class Payload:
    """A payload. ``seq`` is None in NDEATH and commands, which have none."""

    timestamp: int | None = None
    metrics: list[Metric] = field(default_factory=list)
    seq: int | None = None
    uuid: str | None = None
    body: bytes | None = None
    unknown: bytes = field(default=b"", compare=False)
