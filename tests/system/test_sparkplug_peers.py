"""Sparkplug libraries of others publish through the gateway: all that they send is decoded and means what they said."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Client, Delivery, Subscription
from sparkplug.datatypes import DataType
from sparkplug.model import Payload
from sparkplug.payload import decode
from tests.harness import Broker
from tests.system import peers

BIRTH: dict[str, list[Any]] = {
    "int8": ["Int8", -5],
    "int16": ["Int16", -300],
    "int32": ["Int32", -70_000],
    "int64": ["Int64", -(2**40)],
    "uint8": ["UInt8", 200],
    "uint16": ["UInt16", 60_000],
    "uint32": ["UInt32", 4_000_000_000],
    "uint64": ["UInt64", 2**50],
    "float": ["Float", 0.5],
    "double": ["Double", 0.1],
    "boolean": ["Boolean", False],
    "string": ["String", "grün"],
    "text": ["Text", ""],
    "bytes": ["Bytes", "00ff"],
}
DATA: dict[str, list[Any]] = {
    "int8": ["Int8", -128],
    "int16": ["Int16", -1],
    "int32": ["Int32", 5],
    "int64": ["Int64", -1],
    "uint32": ["UInt32", 7],
    "double": ["Double", 1e300],
    "boolean": ["Boolean", True],
    "string": ["String", "blau"],
    "bytes": ["Bytes", "01"],
}
ARRAYS: dict[str, list[Any]] = {
    "int16s": ["Int16Array", [-1, 2]],
    "doubles": ["DoubleArray", [0.5, -0.25]],
    "booleans": ["BooleanArray", [True, False, True]],
    "strings": ["StringArray", ["a", "b"]],
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as running:
        yield running


def meant(values: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: bytes.fromhex(value) if kind == "Bytes" else value for name, (kind, value) in values.items()}


def said(payload: Payload, births: dict[int | str | None, str]) -> dict[str, Any]:
    """Values by name, without what the libraries add of their own and prefix."""
    found = {}
    for metric in payload.metrics:
        name = births.get(metric.alias, metric.name or "") if metric.name is None else metric.name
        if name != "bdSeq" and not name.startswith("Node Control/"):
            found[name.removeprefix("DATA/")] = metric.value
    return found


async def collected(port: int, peer: peers.Peer, plan: dict[str, Any]) -> dict[str, list[bytes]]:
    """Payloads by message type and device, until the peer is done and all of it has come."""
    found: dict[str, list[bytes]] = {}

    def deliver(one: Delivery) -> None:
        _, _, kind, _, *device = one.topic.split("/")
        assert device in ([], ["device"])
        found.setdefault(kind, []).append(one.payload)
        came.set()
        one.ack()

    came = asyncio.Event()
    link = Client("127.0.0.1", port, deliver=deliver)
    await link.open()
    await link.subscribe([Subscription(f"spBv1.0/peers/+/{peer.node}/#")])
    await asyncio.to_thread(peers.run, peer, port, plan)
    async with asyncio.timeout(60):
        while not found.keys() >= {"NBIRTH", "DBIRTH", "NDATA", "DDATA", "DDEATH", "NDEATH"}:
            came.clear()
            await came.wait()
    await link.close()
    return found


@pytest.mark.parametrize("peer", peers.PEERS, ids=[peer.node for peer in peers.PEERS])
async def test_what_it_sends_is_what_it_says(peer: peers.Peer, broker: Broker) -> None:
    if why := peers.missing(peer):
        pytest.skip(why)
    plan = {"birth": BIRTH | (ARRAYS if peer.node == "pysparkplug" else {}), "data": DATA}
    found = await collected(broker.port, peer, plan)
    for born, changed in (("NBIRTH", "NDATA"), ("DBIRTH", "DDATA")):
        birth = decode(found[born][0])
        types: dict[int | str, int] = {}
        names: dict[int | str | None, str] = {}
        for metric in birth.metrics:
            assert metric.name is not None
            types[metric.name] = metric.datatype
            if metric.alias is not None:
                types[metric.alias], names[metric.alias] = metric.datatype, metric.name
        assert {name: value for name, value in said(birth, names).items() if name in plan["birth"]} == meant(
            plan["birth"]
        )
        kinds = {name.removeprefix("DATA/"): kind for name, kind in types.items() if isinstance(name, str)}
        assert {name: kinds[name] for name in plan["birth"]} == {
            name: DataType[kind] for name, (kind, _) in plan["birth"].items()
        }
        data = said(decode(found[changed][0], types=types), names)
        assert {name: data[name] for name in DATA} == meant(DATA)
    for death in found["NDEATH"] + found["DDEATH"]:
        decode(death)
    assert any(metric.name == "bdSeq" for metric in decode(found["NDEATH"][0]).metrics)
