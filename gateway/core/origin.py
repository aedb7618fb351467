"""Where a message was first handed on, and by how many gateways since: two user properties that keep it from circling.

5.0 only. What comes back to the gateway whose name it bears goes no further there.
"""

from typing import Final

from mypy_extensions import i64

ORIGIN: Final = "uplink-origin"
HOPS: Final = "uplink-hops"
_USER_PROPERTY: Final = 0x26
_FORMAT: Final = 0x01  # the one forwarded property that is a single byte
_HOPS_KEY: Final = HOPS.encode()
_ORIGIN_KEY: Final = ORIGIN.encode()


def pair(key: bytes, value: bytes) -> bytes:
    """An encoded user property."""
    return b"\x26" + len(key).to_bytes(2, "big") + key + len(value).to_bytes(2, "big") + value


def origin_pair(name: str) -> bytes:
    return pair(_ORIGIN_KEY, name.encode())


def first_mark(name: str) -> bytes:
    """What the first gateway adds."""
    return origin_pair(name) + pair(_HOPS_KEY, b"1")


def place(props: bytes, key: bytes) -> tuple[i64, i64]:
    """Where the value of a user property stands in encoded properties (as in Publish.props); (0, 0) = nowhere."""
    if key not in props:
        return 0, 0
    at: i64 = 0
    end: i64 = len(props)
    while at < end:
        kind: i64 = props[at]
        at += 1
        if kind == _FORMAT:
            at += 1
            continue
        start = at + 2
        at = start + _size(props, at)
        if kind == _USER_PROPERTY:
            found = props[start:at] == key
            start = at + 2
            at = start + _size(props, at)
            if found:
                return start, at
    return 0, 0


def _size(data: bytes, at: i64) -> i64:
    high: i64 = data[at]
    low: i64 = data[at + 1]
    return high << 8 | low


def is_from(props: bytes, mark: bytes) -> bool:
    """Whether the message was first handed on by the gateway whose origin_pair() is ``mark``."""
    if mark not in props:
        return False
    start, end = place(props, _ORIGIN_KEY)
    return end > 0 and pair(_ORIGIN_KEY, props[start:end]) == mark


def hops(props: bytes) -> int:
    """Gateways that it has come through; 0 = none, or the property is no number."""
    start, end = place(props, _HOPS_KEY)
    value = props[start:end]
    return int(value) if 0 < len(value) <= 3 and value.isdigit() else 0


def handed_on(props: bytes, mark: bytes) -> bytes:
    """The properties as they go to the next gateway; ``mark`` of first_mark() where they have none yet."""
    start, end = place(props, _HOPS_KEY)
    if end == 0:
        return props + mark
    n = str(min(hops(props) + 1, 999)).encode()
    return props[: start - 2] + len(n).to_bytes(2, "big") + n + props[end:]
