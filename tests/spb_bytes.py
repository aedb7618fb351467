"""Sparkplug payloads by hand, byte by byte: what the tests of the gateway publish, without the package under test."""


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def chunk(field: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def metric(
    name: str = "", value: int = 0, alias: int | None = None, datatype: int = 4, historical: bool = False
) -> bytes:
    """Its Int64 ``value`` in long_value; no name: alias only."""
    out = chunk(1, name.encode()) if name else b""
    if alias is not None:
        out += number(2, alias)
    out += number(4, datatype)
    if historical:
        out += number(5, 1)
    return out + number(11, value)


def payload(*metrics: bytes, time: int | None = 1_700_000_000_000, seq: int | None = None) -> bytes:
    out = number(1, time) if time is not None else b""
    out += b"".join(chunk(2, one) for one in metrics)
    return out if seq is None else out + number(3, seq)


def nbirth(bd_seq: int = 0, seq: int = 0, time: int = 1_700_000_000_000, *more: bytes) -> bytes:
    return payload(metric("bdSeq", bd_seq), *more, time=time, seq=seq)


def ndeath(bd_seq: int = 0, time: int = 1_700_000_000_000) -> bytes:
    return payload(metric("bdSeq", bd_seq), time=time)


def data(seq: int, value: int = 0, time: int = 1_700_000_001_000, historical: bool = False) -> bytes:
    return payload(metric("", value, alias=1, historical=historical), time=time, seq=seq)
