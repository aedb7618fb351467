import pytest

from gateway.mqtt import packets, property_table
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import Properties
from gateway.mqtt.properties import decode_properties, encode_properties, scan_message
from gateway.mqtt.property_table import WILL
from tests import wire_format
from tests.plain import plain

CONNECT, CONNACK, PUBLISH, SUBSCRIBE = packets.CONNECT, packets.CONNACK, packets.PUBLISH, packets.SUBSCRIBE

# attribute, identifier, a packet type that carries it, value, bytes after the identifier
ONE_BY_ONE = [
    ("payload_format_indicator", 1, PUBLISH, 1, "01"),
    ("message_expiry_interval", 2, PUBLISH, 0xFFFFFFFF, "ffffffff"),
    ("content_type", 3, PUBLISH, "a/b", "0003612f62"),
    ("response_topic", 8, WILL, "r", "000172"),
    ("correlation_data", 9, PUBLISH, b"\x00\xff", "000200ff"),
    ("subscription_identifiers", 11, PUBLISH, [1, 268_435_455], "010bffffff7f"),
    ("session_expiry_interval", 17, packets.DISCONNECT, 0, "00000000"),
    ("assigned_client_identifier", 18, CONNACK, "x", "000178"),
    ("server_keep_alive", 19, CONNACK, 0, "0000"),
    ("authentication_method", 21, packets.AUTH, "m", "00016d"),
    ("authentication_data", 22, CONNECT, b"", "0000"),
    ("request_problem_information", 23, CONNECT, 0, "00"),
    ("will_delay_interval", 24, WILL, 5, "00000005"),
    ("request_response_information", 25, CONNECT, 1, "01"),
    ("response_information", 26, CONNACK, "i", "000169"),
    ("server_reference", 28, packets.DISCONNECT, "s", "000173"),
    ("reason_string", 31, packets.PUBACK, "é", "0002c3a9"),
    ("receive_maximum", 33, CONNECT, 65_535, "ffff"),
    ("topic_alias_maximum", 34, CONNECT, 0, "0000"),
    ("topic_alias", 35, PUBLISH, 1, "0001"),
    ("maximum_qos", 36, CONNACK, 1, "01"),
    ("retain_available", 37, CONNACK, 0, "00"),
    ("user_properties", 38, SUBSCRIBE, [("b", "1"), ("a", ""), ("b", "1")], "0001620001312600016100002600016200 0131"),
    ("maximum_packet_size", 39, CONNACK, 1, "00000001"),
    ("wildcard_subscription_available", 40, CONNACK, 1, "01"),
    ("subscription_identifier_available", 41, CONNACK, 0, "00"),
    ("shared_subscription_available", 42, CONNACK, 1, "01"),
]  # fmt: skip


def reason_of(raw: bytes, packet_type: int) -> int:
    with pytest.raises(PacketError) as caught:
        decode_properties(raw, 0, len(raw), packet_type)
    if packet_type in (PUBLISH, WILL):
        with pytest.raises(PacketError) as scanned:
            scan_message(raw, 0, len(raw), packet_type)
        assert scanned.value.reason == caught.value.reason
    return caught.value.reason


def test_the_table_is_complete() -> None:
    assert {row[1] for row in ONE_BY_ONE} == {i for i, kind in enumerate(property_table.TYPES) if kind}


@pytest.mark.parametrize(("name", "identifier", "packet_type", "value", "raw"), ONE_BY_ONE)
def test_each_property(name: str, identifier: int, packet_type: int, value: object, raw: str) -> None:
    body = bytes([identifier]) + bytes.fromhex(raw)
    props = decode_properties(b"\x99" + body + b"\x99", 1, 1 + len(body), packet_type)
    assert plain(props) == {name: value}
    assert encode_properties(props, packet_type) == bytes([len(body)]) + body


@pytest.mark.parametrize(("name", "identifier", "packet_type", "value", "raw"), ONE_BY_ONE)
def test_each_property_cut_short(name: str, identifier: int, packet_type: int, value: object, raw: str) -> None:
    body = bytes([identifier]) + bytes.fromhex(raw)
    last = body.rindex(identifier) if isinstance(value, list) else 0
    for cut in range(last + 1, len(body)):
        assert reason_of(body[:cut], packet_type) == 0x81, cut


@pytest.mark.parametrize(("name", "identifier", "packet_type", "value", "raw"), ONE_BY_ONE)
def test_each_property_twice_and_where_it_does_not_belong(
    name: str, identifier: int, packet_type: int, value: object, raw: str
) -> None:
    body = bytes([identifier]) + bytes.fromhex(raw)
    if not isinstance(value, list):
        assert reason_of(body + body, packet_type) == 0x82  # [MQTT-2.2.2.2]
    for other in range(16):
        if not property_table.CARRIES[other] >> identifier & 1:
            assert reason_of(body, other) == 0x81
            with pytest.raises(ValueError, match="does not belong"):
                encode_properties(decode_properties(body, 0, len(body), packet_type), other)


@pytest.mark.parametrize(
    ("packet_type", "raw", "reason"),
    [
        (CONNECT, "210000", 0x82),  # Receive Maximum 0 [MQTT-3.1.2.11.3]
        (CONNECT, "2700000000", 0x82),  # Maximum Packet Size 0 [MQTT-3.1.2.11.4]
        (CONNECT, "1702", 0x82),
        (CONNECT, "1902", 0x82),
        (CONNACK, "2402", 0x82),  # Maximum QoS 2
        (CONNACK, "2a02", 0x82),
        (PUBLISH, "0102", 0x82),
        (PUBLISH, "230000", 0x94),  # [MQTT-3.3.2-8]
        (PUBLISH, "0b00", 0x82),  # [MQTT-3.3.2.3.8]
        (PUBLISH, "0b8000", 0x81),
        (PUBLISH, "080003612f23", 0x82),  # [MQTT-3.3.2-14]
        (PUBLISH, "0300026100", 0x81),
        (PUBLISH, "260001610003eda080", 0x81),
        (SUBSCRIBE, "0b010b02", 0x82),  # one identifier in a SUBSCRIBE
        (PUBLISH, "00", 0x81),
        (PUBLISH, "2b00", 0x81),
        (PUBLISH, "8100", 0x81),
        (PUBLISH, "ffffff7f", 0x81),
    ],
)
def test_values_out_of_range(packet_type: int, raw: str, reason: int) -> None:
    assert reason_of(bytes.fromhex(raw), packet_type) == reason


def test_no_properties() -> None:
    assert encode_properties(None, CONNECT) == b"\0"
    assert encode_properties(Properties(), CONNECT) == b"\0"
    assert plain(decode_properties(b"", 0, 0, CONNECT)) is None


def test_scan_keeps_what_is_forwarded_in_its_order() -> None:
    def raw(*props: tuple[int, object]) -> bytes:
        return wire_format.properties(props)[1:]

    one, two, three = (0x26, ("b", "1")), (0x01, 1), (0x26, ("a", "2"))
    four, five = (0x03, "text"), (0x09, b"corr")
    expiry, alias, first, second = (0x02, 9), (0x23, 3), (0x0B, 5), (0x0B, 200)
    body = raw(expiry, one, two, first, three, alias, second, four, five)
    kept = raw(one, two, three, four, five)
    assert scan_message(b"?" + body + b"?", 1, 1 + len(body), PUBLISH) == (kept, 9, 3, [5, 200])
    assert scan_message(kept, 0, len(kept), PUBLISH) == (kept, -1, 0, None)
    will = raw(one, (0x18, 30), two, expiry)
    assert scan_message(will, 0, len(will), WILL) == (raw(one, two), 9, 30, None)
    assert scan_message(b"", 0, 0, WILL) == (b"", -1, 0, None)
