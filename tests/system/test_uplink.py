"""What goes over an uplink to mosquitto and to another gateway, and what comes back; at QoS 2 exactly once."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.control import ask
from tests import wire_format as mqtt
from tests.harness import Broker, Mosquitto, Server
from tests.system.disks import session_drops, until
from tests.wire import Wire

PATIENCE_S = 30.0
RETAIN_AS_PUBLISHED = 8  # options of a 5.0 subscription

Make = Callable[..., Broker]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture(params=["mosquitto", "gateway"])
def far(request: pytest.FixtureRequest, stack: ExitStack, tmp_path: Path) -> Server:
    made: Server = Mosquitto(tmp_path / "far") if request.param == "mosquitto" else Broker(tmp_path / "far")
    stack.enter_context(made)
    return made


@pytest.fixture
def near(stack: ExitStack, tmp_path: Path) -> Make:
    """A gateway with an uplink to a broker; ``rules``, and other keys of the uplink."""

    def make(far: Server, *rules: dict[str, object], **keys: object) -> Broker:
        row = {"name": "far", "addresses": [f"mqtt://127.0.0.1:{far.port}"], "rules": rules, **keys}
        return stack.enter_context(Broker(tmp_path / "near", {"uplink": json.dumps([row])}))

    return make


def row_of(broker: Broker) -> dict[str, Any]:
    rows: list[dict[str, Any]] = ask(broker.data_dir / "control.sock", {"cmd": "uplinks"})
    return rows[0]


def linked(broker: Broker) -> None:
    until(lambda: row_of(broker)["state"] in ("connected", "forwarding"), "no connection", PATIENCE_S)


def idle(broker: Broker) -> bool:
    row = row_of(broker)
    return not row["queue_messages"] and not row["inflight"]


def shown(packet: mqtt.Packet) -> tuple[str, bytes, int, bool]:
    return packet["topic"], packet["payload"], packet["qos"], packet["retain"]


def users(packet: mqtt.Packet) -> dict[str, str]:
    return dict(value for number, value in packet.props if number == mqtt.USER_PROPERTY)


def publish(wire: Wire, topic: str, qos: int, props: list[tuple[int, Any]]) -> None:
    """To the end of its handshake; the QoS is the payload."""
    if qos:
        wire.publish_done(topic, b"%d" % qos, qos, props=props)
    else:
        wire.publish(topic, b"0", props=props)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_what_goes_out(far: Server, near: Make, version: str) -> None:
    rule = {"direction": "out", "filter": "line/#", "local_prefix": "here/", "remote_prefix": "site/", "qos": 2}
    gateway = near(far, rule, version=version)
    linked(gateway)
    with Wire.connect(far.port, "reader", 5) as reader, Wire.connect(gateway.port, "publisher", 5) as publisher:
        reader.subscribe(("site/#", 2 | RETAIN_AS_PUBLISHED))
        props = [(mqtt.CONTENT_TYPE, "text"), (mqtt.USER_PROPERTY, ("k", "v")), (mqtt.MESSAGE_EXPIRY, 1000)]
        for qos in range(3):
            publish(publisher, "here/line/a", qos, props)
        publisher.publish_done("here/line/b", b"kept", 1, retain=True)
        publisher.publish_done("line/a", b"no rule", 1)
        publisher.publish_done("here/line/c", b"last", 2)
        got = reader.take(5, PATIENCE_S)
    got.sort(key=lambda packet: (packet["topic"], packet["payload"]))  # mosquitto sends QoS 2 on at its PUBREL
    assert [shown(packet) for packet in got] == [
        ("site/line/a", b"0", 0, False),
        ("site/line/a", b"1", 1, False),
        ("site/line/a", b"2", 2, False),
        ("site/line/b", b"kept", 1, True),
        ("site/line/c", b"last", 2, False),
    ]
    if version == "5":
        assert got[1].prop(mqtt.CONTENT_TYPE) == "text"
        assert 990 <= got[1].prop(mqtt.MESSAGE_EXPIRY) <= 1000
        assert users(got[1]).keys() == {"k", "uplink-origin", "uplink-hops"}
        assert users(got[4])["uplink-hops"] == "1"
    with Wire.connect(far.port, "late", 5) as late:
        late.subscribe("site/#", qos=1)
        assert shown(late.take(1, PATIENCE_S)[0]) == ("site/line/b", b"kept", 1, True)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_what_comes_in(far: Server, near: Make, version: str) -> None:
    with Wire.connect(far.port, "before", 4) as publisher:
        publisher.publish_done("up/cmd/state", b"retained there", 1, retain=True)
    rule = {"direction": "in", "filter": "cmd/#", "local_prefix": "here/", "remote_prefix": "up/", "qos": 2}
    gateway = near(far, rule, version=version)
    linked(gateway)
    with Wire.connect(gateway.port, "reader", 5) as reader, Wire.connect(far.port, "publisher", 5) as publisher:
        reader.subscribe(("here/#", 2))
        assert shown(reader.take(1, PATIENCE_S)[0])[:2] == ("here/cmd/state", b"retained there")
        for qos in range(3):
            publish(publisher, "up/cmd/x", qos, [(mqtt.USER_PROPERTY, ("k", "v"))])
        publisher.publish_done("up/other", b"no rule", 1)
        got = reader.take(3, PATIENCE_S)
        reader.expect_nothing()
    assert [shown(packet)[:3] for packet in got] == [("here/cmd/x", b"%d" % qos, qos) for qos in range(3)]
    if version == "5":
        assert users(got[2])["k"] == "v"


def test_what_was_to_come_in_waits_there_while_nobody_is_here(stack: ExitStack, tmp_path: Path, near: Make) -> None:
    far = stack.enter_context(Mosquitto(tmp_path / "far"))
    gateway = near(far, {"direction": "in", "filter": "cmd/#"})
    with Wire.connect(gateway.port, "reader", 4, clean=False) as reader:
        reader.subscribe("cmd/#", qos=1)
    linked(gateway)
    gateway.kill9()
    with Wire.connect(far.port, "publisher", 5) as publisher:
        for number in range(5):
            publisher.publish_done("cmd/x", b"%d" % number, 1)
    gateway.start()
    with Wire.connect(gateway.port, "reader", 4, clean=False, present=1) as reader:
        assert [packet["payload"] for packet in reader.take(5, PATIENCE_S)] == [b"%d" % number for number in range(5)]


def test_qos_2_comes_once_whatever_is_killed(stack: ExitStack, tmp_path: Path, near: Make) -> None:
    far = stack.enter_context(Broker(tmp_path / "far"))
    with Wire.connect(far.port, "reader", 4, clean=False) as reader:
        reader.subscribe("line/#", qos=2)
    rule = {"direction": "out", "filter": "line/#", "qos": 2}
    gateway = near(far, rule, max_inflight=7)
    sent = 0
    for victim in (gateway, far):
        linked(gateway)
        with Wire.connect(gateway.port, "publisher", 4) as publisher:
            pids = [publisher.publish("line/a", b"%d" % number, 2) for number in range(sent, sent + 100)]
            for pid in pids:
                publisher.wait_for(mqtt.PUBREC, pid=pid)
            sent += 100
            victim.kill9()
        victim.start()
    until(lambda: idle(gateway), "the uplink is not drained", PATIENCE_S)
    with Wire.connect(far.port, "reader", 4, clean=False, present=1) as reader:
        got = [int(packet["payload"]) for packet in reader.take(sent, PATIENCE_S)]
        reader.expect_nothing()
    assert got == list(range(sent))


def test_what_the_other_refuses_is_kept_in_the_dead_letter(stack: ExitStack, tmp_path: Path, near: Make) -> None:
    """A gateway lets nobody publish below $SYS."""
    far = stack.enter_context(Broker(tmp_path / "far"))
    rule = {"direction": "out", "filter": "line/#", "remote_prefix": "$SYS/"}
    gateway = near(far, rule, dead_letter="dead/far")
    linked(gateway)
    with Wire.connect(gateway.port, "publisher", 4) as publisher:
        for number in range(3):
            publisher.publish_done("line/a", b"%d" % number, 1)
    until(lambda: idle(gateway), "the uplink is not drained", PATIENCE_S)
    assert session_drops(gateway, "$uplink/far") == {"refused": 3}
    assert row_of(gateway)["refused"] == {"0x87": 3}
    gateway.kill9()
    gateway.start()
    with Wire.connect(
        gateway.port, "$dead/far", 5, clean=False, props=[(mqtt.SESSION_EXPIRY, 100)], present=1
    ) as reader:
        got = reader.take(3, PATIENCE_S)
    assert [shown(packet)[:2] for packet in got] == [("dead/far/line/a", b"%d" % number) for number in range(3)]
    assert users(got[0]) == {"uplink": "far", "uplink-refused": "0x87"}
