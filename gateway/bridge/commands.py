"""A node command that writes a metric, in the form that the node's birth asks for."""

from typing import Final

from gateway.core.nodes import NBIRTH, Node
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload, PayloadError
from sparkplug.payload import decode, encode

VALUES: Final = (int, bool, str)


class WriteError(Exception):
    """What was asked cannot be written; one line."""


def write(node: Node, name: object, datatype: object, value: object, utc_ms: int) -> bytes:
    """The payload of an NCMD: by alias where the birth gave the metric one, else by name
    [tck-id-payloads-alias-data-cmd-requirement].

    Raises WriteError, also when the birth has no such metric.
    """
    if not isinstance(name, str) or not isinstance(value, VALUES):
        raise WriteError("expected the name of a metric and a number, a truth value or a text")
    if not isinstance(datatype, str) or datatype not in DataType.__members__:
        raise WriteError(f"{datatype} is no datatype: expected one like Int32")
    metric = Metric(name, None, utc_ms, DataType[datatype], value)
    births = [source.births[-1] for source in node.sources if source.kind == NBIRTH and source.births]
    try:
        if births:
            born = next((one for one in decode(births[0].payload).metrics if one.name == name), None)
            if born is None:
                raise WriteError(f"{node.key} has no metric {name} in its birth")
            if born.alias is not None:
                metric.name, metric.alias = None, born.alias
        return encode(Payload(utc_ms, [metric]))
    except PayloadError as e:
        raise WriteError(f"{node.key}: {e}") from e
