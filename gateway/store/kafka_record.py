"""A record of the log as Kafka has it.

The key is the MQTT topic and the value the payload, as they are, so that any consumer can read them; what else there
is of a PUBLISH is packed in the header ``mqtt``: flags, the expiry in UTC ms where it has one, and its properties.
"""

from collections.abc import Sequence
from typing import Final

from gateway.store.engine import Record

HEADER: Final = "mqtt"
_RETAIN: Final = 4
_EXPIRES: Final = 8

Headers = Sequence[tuple[str, bytes]]


def pack(record: Record) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    """Key, value and headers."""
    flags = record.qos | (_RETAIN if record.retain else 0) | (_EXPIRES if record.expires_ms else 0)
    head = bytes((flags,))
    if record.expires_ms:
        head += record.expires_ms.to_bytes(8, "big")
    return record.topic.encode(), record.payload, [(HEADER, head + record.props)]


def unpack(key: bytes | None, value: bytes | None, headers: Headers) -> Record | None:
    """None when it was not written by a gateway."""
    head = next((data for name, data in headers if name == HEADER), b"")
    if not head or key is None:
        return None
    flags = head[0]
    at = 9 if flags & _EXPIRES else 1
    if len(head) < at or flags > 15 or flags & 3 > 2:
        return None
    try:
        topic = key.decode()
    except UnicodeDecodeError:
        return None
    if not topic or "\0" in topic or "+" in topic or "#" in topic:
        return None
    expires_ms = int.from_bytes(head[1:at], "big")
    return Record(topic, value or b"", flags & 3, flags & _RETAIN != 0, head[at:], expires_ms)
