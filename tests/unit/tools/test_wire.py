"""The raw test client, tried against a broker that is not ours."""

import shutil
from collections.abc import Iterator

import pytest

from tests import wire_format as mqtt
from tests.harness import Mosquitto
from tests.wire import Wire
from tests.wire_format import Will, WireError

pytestmark = pytest.mark.skipif(shutil.which("mosquitto") is None, reason="tries the test client against mosquitto")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto") / "data") as server:
        yield server.port


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_goes_round(port: int, version: int, qos: int) -> None:
    with Wire.connect(port, "sub", version, present=0) as sub, Wire.connect(port, "pub", version) as pub:
        assert sub.subscribe("a/+", qos=qos) == [qos]
        if qos:
            pub.publish_done("a/b", b"hello", qos)
        else:
            pub.publish("a/b", b"hello")
        (packet,) = sub.take(1)
        assert (packet["topic"], packet["payload"], packet["qos"]) == ("a/b", b"hello", qos)
        sub.unsubscribe("a/+")
        pub.publish_done("a/b", b"again")
        sub.expect_nothing(0.1)
        sub.ping()
        pub.disconnect()


def test_properties_come_back_as_sent(port: int) -> None:
    sent = [
        (mqtt.PAYLOAD_FORMAT, 1), (mqtt.CONTENT_TYPE, "text/plain"), (mqtt.RESPONSE_TOPIC, "back"),
        (mqtt.CORRELATION_DATA, b"\x00\x01"), (mqtt.USER_PROPERTY, ("k", "1")), (mqtt.USER_PROPERTY, ("k", "2")),
    ]  # fmt: skip
    with Wire.connect(port, "p5", 5, props=[(mqtt.SESSION_EXPIRY, 10), (mqtt.RECEIVE_MAXIMUM, 5)]) as wire:
        wire.subscribe(("p", 1), props=[(mqtt.SUBSCRIPTION_ID, 300)])
        wire.publish_done("p", b"x", props=sent)
        packet = wire.expect(mqtt.PUBLISH, topic="p", payload=b"x")
        assert sorted(map(str, packet.props)) == sorted(map(str, [*sent, (mqtt.SUBSCRIPTION_ID, 300)]))
        assert packet.prop(mqtt.SUBSCRIPTION_ID) == 300 and packet.prop(mqtt.TOPIC_ALIAS) is None


def test_a_will_and_a_takeover(port: int) -> None:
    with Wire.connect(port, "watch", 5) as watch:
        watch.subscribe("will")
        first = Wire.connect(port, "mortal", 5)
        with Wire.connect(port, "mortal", 5, will=Will("will", b"gone", 1, props=[(mqtt.CONTENT_TYPE, "t")])):
            first.expect_closed()
            first.close()
        watch.expect(mqtt.PUBLISH, topic="will", payload=b"gone", props=[(mqtt.CONTENT_TYPE, "t")])


def test_failures_say_what_came_instead(port: int) -> None:
    with Wire.connect(port, "fail") as wire:
        wire.subscribe("f")
        wire.publish("f", b"\xfe")
        with pytest.raises(WireError, match=r"(?s)expected PUBLISH payload=b'x'.*got PUBLISH.*30 04 00 01 66 fe"):
            wire.expect(mqtt.PUBLISH, topic="f", payload=b"x")
        with pytest.raises(WireError, match="nothing came"):
            wire.expect(mqtt.PUBLISH, timeout=0.05)
        with pytest.raises(WireError, match="still open"):
            wire.expect_closed(0.05)
        wire.publish("f")
        with pytest.raises(WireError, match="expected silence"):
            wire.expect_nothing(1)
        wire.send(b"\x00\x00")
        wire.expect_closed()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("20 02 02 00", "reserved flags"), ("20 01 00", "early"), ("40 03 00 01 00", "too many"),
        ("36 05 00 01 61 00 01", "flags"), ("32 05 00 01 61 00 00", "packet id 0"), ("e0 00", "3.1.1 server"),
        ("60 02 00 01", "flags"), ("30 04 00 02 c3 28", "UTF-8"), ("c0 00", "sends no PINGREQ"),
    ],
)  # fmt: skip
def test_the_parser_is_strict(raw: str, why: str) -> None:
    with pytest.raises(WireError, match=why):
        mqtt.parse(bytes.fromhex(raw), 4)
