"""The codec against generated packets, chunks and garbage."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.mqtt import packets, property_table, reasons
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode, make_publish
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import V5, V31, Packet, Properties
from gateway.mqtt.properties import decode_properties, encode_properties
from gateway.mqtt.property_table import CARRIES, WILL
from tests.plain import plain

U16 = st.integers(0, 0xFFFF)
U32 = st.integers(0, 0xFFFFFFFF)
FLAG = st.integers(0, 1)
PACKET_ID = st.integers(1, 0xFFFF)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
TOPIC = st.text(st.characters(exclude_characters="\0+#", exclude_categories=["Cs"]), min_size=1, max_size=20)
BINARY = st.binary(max_size=20)
QOS = st.integers(0, 2)
VERSION = st.sampled_from([3, 4, 5])
VARINT = st.one_of(st.integers(1, 300), st.integers(1, 268_435_455))

VALUES: dict[str, tuple[int, st.SearchStrategy[Any]]] = {
    "payload_format_indicator": (1, FLAG),
    "message_expiry_interval": (2, U32),
    "content_type": (3, TEXT),
    "response_topic": (8, TOPIC),
    "correlation_data": (9, BINARY),
    "session_expiry_interval": (17, U32),
    "assigned_client_identifier": (18, TEXT),
    "server_keep_alive": (19, U16),
    "authentication_method": (21, TEXT),
    "authentication_data": (22, BINARY),
    "request_problem_information": (23, FLAG),
    "will_delay_interval": (24, U32),
    "request_response_information": (25, FLAG),
    "response_information": (26, TEXT),
    "server_reference": (28, TEXT),
    "reason_string": (31, TEXT),
    "receive_maximum": (33, st.integers(1, 0xFFFF)),
    "topic_alias_maximum": (34, U16),
    "topic_alias": (35, st.integers(1, 0xFFFF)),
    "maximum_qos": (36, FLAG),
    "retain_available": (37, FLAG),
    "user_properties": (38, st.lists(st.tuples(TEXT, TEXT), max_size=4)),
    "maximum_packet_size": (39, st.integers(1, 0xFFFFFFFF)),
    "wildcard_subscription_available": (40, FLAG),
    "subscription_identifier_available": (41, FLAG),
    "shared_subscription_available": (42, FLAG),
}


@st.composite
def properties(draw: st.DrawFn, packet_type: int) -> Properties:
    props = Properties()
    for name, (identifier, values) in VALUES.items():
        if CARRIES[packet_type] >> identifier & 1 and draw(st.booleans()):
            setattr(props, name, draw(values))
    if CARRIES[packet_type] >> property_table.SUBSCRIPTION_IDENTIFIER & 1:
        most = 3 if packet_type == packets.PUBLISH else 1
        props.subscription_identifiers = draw(st.lists(VARINT, max_size=most))
    if packet_type == packets.CONNECT and props.authentication_method is None:
        props.authentication_data = None
    return props


def forwarded(draw: st.DrawFn) -> bytes:
    """Encoded properties that are forwarded unaltered, without their length."""
    props = draw(properties(packets.PUBLISH))
    props.message_expiry_interval = props.topic_alias = -1
    props.subscription_identifiers = []
    raw = encode_properties(props, packets.PUBLISH)
    return raw[1 if raw[0] < 0x80 else 2 :]


@st.composite
def connects(draw: st.DrawFn, version: int) -> Packet:
    will: packets.Will | None = None
    if draw(st.booleans()):
        will = packets.Will(draw(TOPIC).encode(), draw(BINARY), draw(QOS), draw(st.booleans()))
        if version == V5:
            will.props = forwarded(draw)
            will.expiry = draw(st.integers(-1, 0xFFFFFFFF))
            will.delay = draw(U32)
    username = draw(st.none() | TEXT)
    password = draw(st.none() | BINARY) if version == V5 or username is not None else None
    props = draw(properties(packets.CONNECT)) if version == V5 else None
    return packets.Connect(version, draw(TEXT), draw(st.booleans()), draw(U16), username, password, will, props)


@st.composite
def publishes(draw: st.DrawFn, version: int) -> Packet:
    qos = draw(QOS)
    packet_id = draw(PACKET_ID) if qos else 0
    dup = qos > 0 and draw(st.booleans())
    payload = bytes(draw(st.sampled_from([0, 1, 100, 127, 128, 200, 17_000])))
    topic, retain = draw(TOPIC), draw(st.booleans())
    if version < V5:
        return make_publish(topic, payload, qos, retain, dup, packet_id, version=version)
    alias = draw(st.integers(0, 0xFFFF))
    name = topic if alias == 0 or draw(st.booleans()) else ""
    identifiers = draw(st.none() | st.lists(VARINT, min_size=1, max_size=3))
    expiry = draw(st.integers(-1, 0xFFFFFFFF))
    return make_publish(
        name, payload, qos, retain, dup, packet_id, forwarded(draw), expiry, alias, identifiers, version
    )


@st.composite
def others(draw: st.DrawFn, version: int) -> Packet:
    five = version == V5
    kinds = [*range(packets.PUBACK, packets.DISCONNECT + 1), packets.CONNACK, *([packets.AUTH] if five else [])]
    kind = draw(st.sampled_from(kinds))
    codes = [code for code in range(256) if reasons.allowed(kind, code)]
    code = draw(st.sampled_from(codes)) if five and codes else 0
    props = draw(properties(kind)) if five else None
    packet_id = draw(PACKET_ID)
    if kind == packets.CONNACK:
        code = code if five else draw(st.integers(0, 5))
        return packets.Connack(version > V31 and code == 0 and draw(st.booleans()), code, props)
    if packets.PUBACK <= kind <= packets.PUBCOMP:
        return packets.Ack(kind, packet_id, code, props)
    if kind == packets.SUBSCRIBE:
        filters = draw(st.lists(filter_options(five), min_size=1, max_size=4))
        return packets.Subscribe(packet_id, filters, props)
    if kind == packets.SUBACK:
        granted = st.sampled_from(codes if five else [0, 1, 2, 0x80])
        return packets.Suback(packet_id, draw(st.lists(granted, min_size=1, max_size=4)), props)
    if kind == packets.UNSUBSCRIBE:
        return packets.Unsubscribe(packet_id, draw(st.lists(TEXT.filter(bool), min_size=1, max_size=4)), props)
    if kind == packets.UNSUBACK:
        ended = draw(st.lists(st.sampled_from(codes), min_size=1, max_size=4)) if five else []
        return packets.Unsuback(packet_id, ended, props)
    if kind == packets.DISCONNECT:
        return packets.Disconnect(code, props)
    if kind == packets.AUTH:
        return packets.Auth(code, props)
    return packets.Pingreq() if kind == packets.PINGREQ else packets.Pingresp()


@st.composite
def filter_options(draw: st.DrawFn, five: bool) -> packets.Filter:
    name = draw(TEXT.filter(bool))
    if not five:
        return packets.Filter(name, draw(QOS))
    return packets.Filter(name, draw(QOS), draw(st.booleans()), draw(st.booleans()), draw(QOS))


def any_packet(version: int) -> st.SearchStrategy[Packet]:
    return st.one_of(connects(version), publishes(version), others(version))


def decoded(raw: bytes, version: int) -> list[Packet]:
    """The packets up to the end or the first error."""
    decoder = Decoder(0, version)
    decoder.feed(raw)
    found: list[Packet] = []
    try:
        while (packet := decoder.next()) is not None:
            found.append(packet)
    except PacketError:
        assert decoder.buffered == 0
    return found


def shown(found: list[Packet]) -> list[object]:
    return [plain(packet) for packet in found]


@settings(deadline=None)
@given(st.data(), VERSION)
def test_round_trip(data: st.DataObject, version: int) -> None:
    packet = data.draw(any_packet(version))
    assert shown(decoded(encode(packet, version), version)) == shown([packet])


@settings(deadline=None)
@given(st.data(), st.sampled_from([kind for kind in range(16) if CARRIES[kind]]))
def test_properties_round_trip(data: st.DataObject, packet_type: int) -> None:
    props = data.draw(properties(packet_type))
    raw = encode_properties(props, packet_type)
    start = 1 if raw[0] < 0x80 else 2
    assert plain(decode_properties(raw, start, len(raw), packet_type)) == plain(props)


@settings(deadline=None)
@given(st.data(), VERSION, st.lists(st.integers(1, 50), max_size=50))
def test_any_chunking_gives_the_same_packets(data: st.DataObject, version: int, sizes: list[int]) -> None:
    sent = data.draw(st.lists(any_packet(version), max_size=5))
    raw = b"".join([encode(packet, version) for packet in sent])
    decoder = Decoder(0, version)
    found: list[Packet] = []
    at = 0
    for size in [*sizes, len(raw)]:
        decoder.feed(raw[at : at + size])
        at += size
        if data.draw(st.booleans()):  # or let it pile up
            while (packet := decoder.next()) is not None:
                found.append(packet)
    while (packet := decoder.next()) is not None:
        found.append(packet)
    assert shown(found) == shown(sent)
    assert decoder.buffered == 0


def check_accepted(raw: bytes, version: int) -> None:
    for packet in decoded(raw, version):
        known = packet.version if isinstance(packet, packets.Connect) else version
        version = known
        again = decoded(encode(packet, version), version)
        assert shown(again) == shown([packet])


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([0, 3, 4, 5]))
def test_garbage_raises_nothing_but_packet_errors(raw: bytes, version: int) -> None:
    if version:
        check_accepted(raw, version)
    else:
        assert len(decoded(raw, 0)) <= len(raw)


@settings(deadline=None)
@given(st.data(), VERSION)
def test_mutated_packets(data: st.DataObject, version: int) -> None:
    """Nothing but PacketError; and what is accepted means the same after it was encoded again."""
    raw = bytearray(encode(data.draw(any_packet(version)), version)[:500])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        change = data.draw(st.integers(0, 2))
        if change == 0:
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=3))
        elif change == 1:
            del raw[at : at + data.draw(st.integers(1, 4))]
        else:
            raw[at : at + 1] = bytes([data.draw(st.integers(0, 255))])
    check_accepted(bytes(raw), version)


def test_every_property_is_generated() -> None:
    assert {row[0] for row in VALUES.values()} | {property_table.SUBSCRIPTION_IDENTIFIER} == {
        identifier for identifier, kind in enumerate(property_table.TYPES) if kind
    }
    assert CARRIES[WILL]
