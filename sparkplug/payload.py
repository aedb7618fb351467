"""Sparkplug B payloads: bytes to the model and back.

    payload = decode(data, types={7: DataType.Double})
    data = encode(payload)

Nothing but ``PayloadError`` is raised for what a peer or a caller gives. protobuf is loaded with the first payload: it
takes some megabytes, and many who import this never see one.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from sparkplug.datatypes import text
from sparkplug.model import Payload, PayloadError

ITEMS_MAX: Final = 30_000
"""How many metrics, properties, parameters and cells a payload may hold, unless the caller allows more.

A mebibyte of metrics with names holds fewer.
"""

SEQ_MAX: Final = 255
_LARGE_BYTES: Final = 131_072

_NO_TYPES: Final[Mapping[int | str, int]] = {}

Types: TypeAlias = Mapping[int | str, int] | Mapping[int, int] | Mapping[str, int]


def decode(data: bytes, *, types: Types | None = None, items_max: int = ITEMS_MAX) -> Payload:
    """What a payload says.

    Args:
        data: the payload; no bytes at all are an empty payload.
        types: the datatype of metrics that carry none, by alias or by name, as their birth gave it.
        items_max: a payload with more metrics, properties, parameters and cells is refused.

    Raises:
        PayloadError: what is wrong, and with which metric.
    """
    from sparkplug.reading import TOO_MANY, Reader, parse

    message = parse(data)
    if len(message.metrics) > items_max:
        raise PayloadError(TOO_MANY)
    types, metrics = types or _NO_TYPES, None
    if len(data) > _LARGE_BYTES:  # what is refused is refused before anything else is done with all of it
        metrics = Reader(None, items_max, False).metrics(message.metrics, types)
    # To look for unknown fields in each message would be slow: does it serialise to fewer bytes without them?
    message.DiscardUnknownFields()
    known = message.SerializeToString()
    canonical, keep = known == data, False
    if not canonical:
        message.ParseFromString(data)
        keep = len(message.SerializeToString()) != len(known)
    reader = Reader(data if canonical else None, items_max, keep)
    if metrics is None or keep:
        metrics = reader.metrics(message.metrics, types)
    timestamp, seq = message.timestamp, message.seq
    return Payload(
        timestamp if timestamp or message.HasField("timestamp") else None,
        metrics,
        seq if seq or message.HasField("seq") else None,
        text(message.uuid) if message.HasField("uuid") else None,
        message.body if message.HasField("body") else None,
        reader.unknown(message) if keep else b"",
    )


def encode(payload: Payload, *, uint32_as_long: bool = False, with_datatypes: bool = True) -> bytes:
    """The bytes of a payload: a metric without a value is a null.

    Args:
        payload: what to say.
        uint32_as_long: for peers that expect a UInt32 in long_value, where the specification has it in int_value.
        with_datatypes: False leaves them off the metrics, as DATA and commands should
            [tck-id-payloads-metric-datatype-not-req]; the members of templates keep theirs.

    Raises:
        PayloadError: what is wrong, and with which metric.
    """
    from sparkplug.sparkplug_b_pb2 import Payload as Pb
    from sparkplug.writing import Writer, number, put_back, string

    message = Pb()
    if payload.timestamp is not None:
        message.timestamp = number(payload.timestamp, "the timestamp")
    if payload.seq is not None:
        seq = number(payload.seq, "seq")
        if seq > SEQ_MAX:
            raise PayloadError(f"seq must be 0 to {SEQ_MAX}, not {seq}")
        message.seq = seq
    if payload.uuid is not None:
        message.uuid = string(payload.uuid, "the uuid")
    if payload.body is not None:
        if not isinstance(payload.body, bytes):
            raise PayloadError(f"the body must be bytes, not {payload.body!r}")
        message.body = payload.body
    writer = Writer(uint32_as_long)
    for metric in payload.metrics:
        writer.metric(message.metrics.add(), metric, with_datatypes)
    put_back(message, payload.unknown)
    data: bytes = message.SerializeToString()
    return data
