"""What a Sparkplug-aware server does beside passing messages on, as functions of a message.

It shows the latest births as retained messages under ``$sparkplug/certificates/``, where nobody but itself may publish,
and may give an NDEATH the time at which it is delivered: a will was written when its session began.
"""

from typing import Final

from sparkplug.topic import CERTIFICATES, MessageType, StateTopic, TopicError, parse

_BIRTHS: Final = (MessageType.NBIRTH, MessageType.DBIRTH)
_ROOT: Final = CERTIFICATES.split("/", 1)[0]
_TIMESTAMP: Final = 1  # its field
_LENGTHS: Final = {1: 8, 5: 4}  # of the wire types with a fixed size


def certificate(topic: str, payload: bytes) -> str | None:
    """The topic on which a copy of this message is to be kept, retained; None when it is no birth.

    The message itself stays as it is [tck-id-conformance-mqtt-aware-nbirth-mqtt-retain]. An empty payload would delete
    the copy instead of replacing it, so it is none.
    """
    if not payload or "BIRTH/" not in topic:
        return None
    try:
        found = parse(topic)
    except TopicError:
        return None
    return None if isinstance(found, StateTopic) or found.type not in _BIRTHS else CERTIFICATES + topic


def original(topic: str) -> str | None:
    """The topic that a certificate is a copy of, None when it is none; who may read the one may read the other."""
    return topic[len(CERTIFICATES) :] if topic.startswith(CERTIFICATES) else None


def may_publish(topic: str) -> bool:
    """A client may publish to the topic, as far as this goes: ``$sparkplug`` is the server's own."""
    return topic != _ROOT and not topic.startswith(_ROOT + "/")


def stamp_death(topic: str, payload: bytes, now: int) -> bytes:
    """The payload of an NDEATH with the timestamp ``now`` (UTC ms), all else bit for bit; any other as it is
    [tck-id-conformance-mqtt-aware-ndeath-timestamp]."""
    if "/NDEATH/" not in topic:
        return payload
    try:
        parse(topic)
    except TopicError:
        return payload
    kept = bytearray((_TIMESTAMP << 3,))
    kept += _varint(now)
    at = 0
    while at < len(payload):
        end = _field_end(payload, at)
        if end < 0:
            return payload  # no protobuf: not ours to repair
        if _read(payload, at)[0] >> 3 != _TIMESTAMP:
            kept += payload[at:end]
        at = end
    return bytes(kept)


def _field_end(data: bytes, at: int) -> int:
    """Where the field that starts at ``at`` ends, -1 when it is damaged."""
    tag, at = _read(data, at)
    wire = tag & 7
    if at < 0 or not tag >> 3:
        return -1
    if wire == 0:
        return _read(data, at)[1]
    if wire == 2:
        length, at = _read(data, at)
        at = -1 if at < 0 else at + length
    elif wire in _LENGTHS:
        at += _LENGTHS[wire]
    else:
        return -1  # groups, which proto2 calls deprecated
    return at if at <= len(data) else -1


def _read(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends, -1 when it does not."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, -1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
