"""How bytes come: in parts, many at once; and the byte tables of what is malformed."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.peer import Peer

TABLES = sorted((Path(__file__).parent / "bytes").glob("*.toml"))


def cases() -> list[Any]:
    return [
        pytest.param(case, id=f"{table.stem}: {case['name']}")
        for table in TABLES
        for case in tomllib.loads(table.read_text())["case"]
    ]


@pytest.mark.parametrize("case", cases())
def test_byte_table(peer: Peer, case: dict[str, Any]) -> None:
    """``send`` on a connection of ``version`` (0 = nothing sent before): ``expect`` comes, or ``close``.

    ``close`` is the list of the reasons that are right in a DISCONNECT, or in the CONNACK that refuses; [] is a close
    without a packet.
    """
    assert case["clauses"]
    data = bytes.fromhex(case["send"])
    if case["version"]:
        client = peer.connect("s", version=case["version"])
    else:
        client = peer.open(case.get("answer_version", 5))
    client.send(data)
    if "expect" in case:
        for one in case["expect"]:
            assert client.recv().raw.hex() == one.replace(" ", ""), client.failure("other bytes")
        client.ping()
    elif not case["version"] and case["close"]:
        client.expect_refused(*case["close"])
    else:
        reasons = tuple(case["close"])
        client.expect_closed(reasons or None, silent=not reasons)


@pytest.mark.parametrize("version", [4, 5])
def test_byte_by_byte(peer: Peer, version: int) -> None:
    """A packet may come in any pieces."""
    client = peer.open(version)
    data = client.wire.connect(f"{peer.prefix}-s", will=("w", b"will", 1, False))
    data += client.wire.publish(peer.topic, b"x" * 150, 2, pid=300)
    data += client.wire.ack("PUBREL", 300) + b"\xc0\x00"
    for index in range(len(data)):
        client.send(data[index : index + 1])
    assert [client.recv().type for _ in range(4)] == ["CONNACK", "PUBREC", "PUBCOMP", "PINGRESP"]


@pytest.mark.parametrize("version", [4, 5])
def test_many_packets_in_one_segment(peer: Peer, version: int) -> None:
    """CONNECT and everything behind it may come at once, before CONNACK is out [MQTT-3.1.4-5]."""
    client = peer.open(version)
    data = client.wire.connect(f"{peer.prefix}-s")
    data += b"".join(client.wire.publish(peer.topic, str(n).encode(), 1, pid=n) for n in range(1, 501))
    client.send(data + b"\xc0\x00")
    client.expect("CONNACK", reason=0)
    rest = [client.recv() for _ in range(501)]
    assert [got.pid for got in rest if got.type == "PUBACK"] == list(range(1, 501))
    assert sum(got.type == "PINGRESP" for got in rest) == 1


def test_a_split_at_every_place(peer: Peer) -> None:
    """Two pieces, cut at each byte of each packet."""
    client = peer.connect("s")
    client.subscribe(peer.topic, qos=0)
    publisher = peer.connect("p")
    data = publisher.wire.publish(peer.topic, b"y" * 20, 0, user_property=[("k", "v")]) + b"\xc0\x00"
    for cut in range(1, len(data)):
        publisher.send(data[:cut])
        publisher.send(data[cut:])
        publisher.expect("PINGRESP")
        client.take(payload=b"y" * 20)


def test_garbage_closes_the_connection(peer: Peer) -> None:
    """Whatever it is: an HTTP request, a TLS hello, zeros."""
    for data in (b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("1603010200010001fc0303"), bytes(64), b"\xff" * 64):
        client = peer.open()
        client.send(data)
        client.expect_closed(silent=True)
    peer.connect("s").ping()
