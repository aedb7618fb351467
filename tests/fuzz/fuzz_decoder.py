"""Coverage-guided fuzzing of the decoder with atheris; any exception but PacketError is a finding.

    PYTHONPATH=. python tests/fuzz/fuzz_decoder.py CORPUS_DIRECTORY -max_total_time=60

The interpreted files are instrumented: what a compiler made of them gives no
coverage. The first byte of an input chooses the version, the second the size
of the chunks, the third the size limit.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gateway.mqtt"]):
    from gateway.mqtt import decode
    from gateway.mqtt.decode import Decoder, check_topic_name
    from gateway.mqtt.encode import encode
    from gateway.mqtt.errors import PacketError
    from gateway.mqtt.packets import Connect, Packet, Publish
    from gateway.mqtt.reasons import NAMES

from tests import wire_format
from tests.plain import plain

VERSIONS = (0, 3, 4, 5)
LIMITS = (16, 100, 1000, 1_000_000)


def packets_of(decoder: Decoder, chunks: list[bytes], limit: int) -> list[Packet]:
    """The packets up to the first error; what waits to be decoded stays below the size limit."""
    found: list[Packet] = []
    try:
        for chunk in chunks:
            decoder.feed(chunk)
            while (packet := decoder.next()) is not None:
                found.append(packet)
            assert decoder.buffered <= limit, "waits for more than the limit allows"
    except PacketError as error:
        if error.reason not in NAMES or error.reason < 0x80:
            raise AssertionError(f"reason {error.reason}") from error
        assert decoder.buffered == 0, "a dead decoder holds bytes"
        assert decoder.next() is None
    return found


def check_packet(packet: Packet, version: int) -> None:
    """What was accepted can be encoded, and decodes to the same."""
    if isinstance(packet, Publish):
        assert packet.frame.endswith(packet.payload)
        try:
            check_topic_name(packet.topic)
        except PacketError:
            pass
    again = Decoder(0, version)
    again.feed(encode(packet, version))
    assert plain(again.next()) == plain(packet), "encoded again it means something else"
    assert again.buffered == 0


def check(data: bytes) -> None:
    if len(data) < 4:
        return
    version = VERSIONS[data[0] & 3]
    size = data[1] % 64 + 1
    limit = LIMITS[data[2] & 3]
    raw = data[3:]
    whole = packets_of(Decoder(limit, version), [raw], limit)
    cut = packets_of(Decoder(limit, version), [raw[at : at + size] for at in range(0, len(raw), size)], limit)
    assert [plain(packet) for packet in whole] == [plain(packet) for packet in cut], "chunks change the packets"
    for packet in whole:
        if isinstance(packet, Connect):
            version = packet.version
        check_packet(packet, version)


def seeds() -> list[bytes]:
    """One input for each packet type and version to start from."""
    inputs: list[bytes] = []
    will = wire_format.Will("w", b"gone", 1, True)
    for version in (3, 4, 5):
        none = b"\0" if version == 5 else b""
        head = bytes([VERSIONS.index(version), 7, 2])
        bodies = [
            (0x20, b"\0\0" + none), (0x40, b"\0\1"), (0x62, b"\0\1"), (0x82, b"\0\1" + none + b"\0\1a\1"),
            (0x90, b"\0\1" + none + b"\1"), (0xA2, b"\0\1" + none + b"\0\1a"), (0xB0, b"\0\1" + none + none),
            (0xC0, b""), (0xE0, b""),
        ]  # fmt: skip
        connect = wire_format.connect("id", version, will=will, username="u", password="p")
        publish = wire_format.publish("a/b", b"payload", 1, pid=7, version=version)
        inputs += [b"\0\5\2" + connect + publish, head + publish]
        inputs += [head + wire_format.frame(first, body) for first, body in bodies]
    full = [(0x01, 1), (0x02, 60), (0x03, "text"), (0x08, "answer"), (0x09, b"id"), (0x26, ("k", "v")), (0x0B, 5)]
    inputs.append(b"\3\7\2" + wire_format.publish("a", b"x", 2, pid=1, version=5, props=full))
    every = [(0x11, 1), (0x15, "m"), (0x16, b"d"), (0x21, 9), (0x22, 3), (0x26, ("k", "v")), (0x27, 999)]
    inputs.append(b"\0\7\2" + wire_format.connect("c", 5, props=every))
    inputs.append(b"\3\7\2" + wire_format.frame(0x20, b"\0\0" + wire_format.properties(every)))
    inputs.append(b"\3\7\2" + wire_format.frame(0xF0, b"\x18" + wire_format.properties([(0x15, "m"), (0x1F, "why")])))
    return inputs


def main() -> None:
    assert str(decode.__file__).endswith(".py"), "the compiled decoder cannot be instrumented"
    corpus = Path(sys.argv[1])
    for number, raw in enumerate(seeds()):
        check(raw)
        (corpus / f"seed{number}").write_bytes(raw)
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
