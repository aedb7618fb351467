"""What collectors of MQTT 5.0 are told beside a Sparkplug message: user properties, made when it is sent."""

from typing import Final

from mypy_extensions import i64

PREFIX: Final = b"forebay-"


def _pair(key: bytes, value: bytes) -> bytes:
    return b"\x26" + len(key).to_bytes(2, "big") + key + len(value).to_bytes(2, "big") + value


def _tails() -> list[bytes]:
    """By QoS, late and clock: the part that has few values."""
    return [
        _pair(b"forebay-clock", clock) + _pair(b"forebay-late", late) + _pair(b"forebay-qos", qos)
        for qos in (b"0", b"1", b"2")
        for late in (b"0", b"1")
        for clock in (b"unsynchronised", b"synchronised")
    ]


_TAILS: Final[list[bytes]] = _tails()
TAILS: Final = 12  # how many there are
_ID: Final = b"\x26\x00\x0aforebay-id\x00"
_RECEIVED: Final = b"\x26\x00\x10forebay-received\x00"


def tail_of(qos: i64, late: i64, exact: bool) -> i64:
    """The number of the last part: at which QoS it came, whether late, and whether the clock is synchronised."""
    return qos * 4 + late * 2 + (1 if exact else 0)


def envelope(id: i64, received: i64, tail: i64) -> bytes:
    """The encoded properties; ``received`` in UTC ms, ``tail`` of tail_of()."""
    first = str(id).encode()
    second = str(received).encode()
    return b"%b%c%b%b%c%b%b" % (_ID, len(first), first, _RECEIVED, len(second), second, _TAILS[tail])
