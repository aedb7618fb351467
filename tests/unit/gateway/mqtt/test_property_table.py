from gateway.mqtt import packets, property_table
from gateway.mqtt.property_table import CARRIES, TYPES, WILL

# the table of [MQTT-2.2.2.2], by packet type, written down a second time
ACKS = {31, 38}
CARRIED = {
    WILL: {1, 2, 3, 8, 9, 24, 38},
    packets.CONNECT: {17, 21, 22, 23, 25, 33, 34, 38, 39},
    packets.CONNACK: {17, 18, 19, 21, 22, 26, 28, 31, 33, 34, 36, 37, 38, 39, 40, 41, 42},
    packets.PUBLISH: {1, 2, 3, 8, 9, 11, 35, 38},
    packets.PUBACK: ACKS,
    packets.PUBREC: ACKS,
    packets.PUBREL: ACKS,
    packets.PUBCOMP: ACKS,
    packets.SUBSCRIBE: {11, 38},
    packets.SUBACK: ACKS,
    packets.UNSUBSCRIBE: {38},
    packets.UNSUBACK: ACKS,
    packets.PINGREQ: set(),
    packets.PINGRESP: set(),
    packets.DISCONNECT: {17, 28, 31, 38},
    packets.AUTH: {21, 22, 31, 38},
}


def test_which_packet_carries_which_property() -> None:
    found = {kind: {ident for ident in range(43) if bits >> ident & 1} for kind, bits in enumerate(CARRIES)}
    assert found == CARRIED


def test_data_types() -> None:
    expected = {
        property_table.TYPE_FLAG: {1, 23, 25, 36, 37, 40, 41, 42},
        property_table.TYPE_TWO: {19, 33, 34, 35},
        property_table.TYPE_FOUR: {2, 17, 24, 39},
        property_table.TYPE_VARINT: {11},
        property_table.TYPE_TEXT: {3, 8, 18, 21, 26, 28, 31},
        property_table.TYPE_BINARY: {9, 22},
        property_table.TYPE_PAIR: {38},
    }
    assert {kind: {i for i, found in enumerate(TYPES) if found == kind} for kind in expected} == expected
