"""Deliveries and their answers, by the bytes that would be written."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.link.deliveries import Delivery, Incoming
from gateway.mqtt import packets
from gateway.mqtt.encode import encode_ack, make_publish
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import Properties
from gateway.mqtt.properties import encode_properties


class Written:
    """What a connection wrote, packet by packet."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def put(self, data: bytes) -> None:
        self.packets.append(data)

    def put_puback(self, packet_id: int) -> None:
        self.put(encode_ack(packets.PUBACK, packet_id, 0, 5))

    def taken(self) -> list[str]:
        taken, self.packets = [packet.hex() for packet in self.packets], []
        return taken


class Inbox:
    def __init__(self, version: int = 5, receive_maximum: int = 65535) -> None:
        self.got: list[Delivery] = []
        self.incoming = Incoming(version, receive_maximum, self.got.append)
        self.version = version
        self.wire = Written()
        self.incoming.connected(self.wire, False)

    def comes(self, packet_id: int, qos: int = 1, dup: bool = False, payload: bytes = b"x") -> None:
        self.incoming.on_publish(make_publish("t", payload, qos, False, dup, packet_id, version=self.version))

    def again(self, session_present: bool = True) -> None:
        self.incoming.disconnected()
        self.wire = Written()
        self.incoming.connected(self.wire, session_present)


@pytest.mark.parametrize(
    ("version", "qos", "code", "answer"),
    [
        (5, 1, 0, "40020007"),
        (5, 2, 0, "50020007"),
        (5, 1, 0x80, "4003000780"),
        (5, 2, 0x97, "5003000797"),
        (4, 1, 0, "40020007"),
        (4, 2, 0, "50020007"),
    ],
)
def test_one_answer_and_not_before_it_is_settled(version: int, qos: int, code: int, answer: str) -> None:
    inbox = Inbox(version)
    inbox.comes(7, qos)
    assert inbox.wire.taken() == []
    assert inbox.got[0].ack(code)
    assert inbox.wire.taken() == [answer]
    assert not inbox.got[0].ack(code) and inbox.wire.taken() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_answers_leave_in_the_order_of_receipt(qos: int) -> None:
    inbox = Inbox()
    for packet_id in (1, 2, 3, 4):
        inbox.comes(packet_id, qos)
    head = "40" if qos == 1 else "50"
    inbox.got[1].ack()
    inbox.got[3].ack()
    assert inbox.wire.taken() == []
    inbox.got[0].ack()
    assert inbox.wire.taken() == [f"{head}020001", f"{head}020002"]
    inbox.got[2].leave()
    assert inbox.wire.taken() == [f"{head}020004"], "what is left holds nobody up"
    assert inbox.incoming.left == 1 and inbox.incoming.unsettled == 0


def test_qos_1_and_qos_2_do_not_wait_for_each_other() -> None:
    inbox = Inbox()
    inbox.comes(1, 1)
    inbox.comes(2, 2)
    inbox.comes(3, 1)
    inbox.got[1].ack()
    assert inbox.wire.taken() == ["50020002"]
    inbox.got[2].ack()
    assert inbox.wire.taken() == []


def test_what_is_left_is_final() -> None:
    inbox = Inbox()
    inbox.comes(1)
    inbox.got[0].leave()
    assert inbox.got[0].settled and not inbox.got[0].ack()
    assert inbox.wire.taken() == []


def test_at_qos_0_there_is_nothing_to_answer() -> None:
    inbox = Inbox()
    inbox.incoming.on_publish(make_publish("t", b"x"))
    assert (inbox.got[0].qos, inbox.got[0].packet_id) == (0, 0)
    assert not inbox.got[0].ack() and inbox.got[0].settled
    assert inbox.wire.taken() == []


def test_3_1_1_cannot_refuse_a_message() -> None:
    inbox = Inbox(4)
    inbox.comes(1)
    with pytest.raises(ValueError, match=r"3\.1\.1"):
        inbox.got[0].ack(0x80)
    assert not inbox.got[0].settled and inbox.wire.taken() == []


def test_a_handler_that_raises_leaves_the_message(caplog: pytest.LogCaptureFixture) -> None:
    def deliver(one: Delivery) -> None:
        if one.packet_id == 1:
            raise RuntimeError("mine")
        one.ack()

    inbox = Inbox()
    inbox.incoming.deliver = deliver
    with caplog.at_level(logging.ERROR):
        inbox.comes(1)
        inbox.comes(2)
    assert inbox.wire.taken() == ["40020002"]
    assert "a message to t was not taken" in caplog.text and "mine" in caplog.text


def test_an_answer_of_an_old_connection_goes_nowhere() -> None:
    inbox = Inbox()
    inbox.comes(1)
    inbox.comes(2)
    inbox.again()
    inbox.comes(1, dup=True)
    assert inbox.got[0].lost and not inbox.got[0].ack()
    assert inbox.wire.taken() == []
    assert inbox.got[2].dup and inbox.got[2].ack()
    assert inbox.wire.taken() == ["40020001"]


def test_qos_2_is_delivered_once_on_one_connection() -> None:
    inbox = Inbox()
    inbox.comes(5, 2)
    inbox.comes(5, 2, dup=True)
    assert len(inbox.got) == 1 and inbox.wire.taken() == []
    inbox.got[0].ack()
    assert inbox.wire.taken() == ["50020005"]
    inbox.comes(5, 2, dup=True)
    assert len(inbox.got) == 1 and inbox.wire.taken() == ["50020005"]
    inbox.incoming.on_pubrel(5, inbox.wire)
    assert inbox.wire.taken() == ["70020005"]
    inbox.comes(5, 2)
    assert len(inbox.got) == 2, "a packet id that was released is a new message"


def test_qos_2_is_delivered_once_over_connections() -> None:
    inbox = Inbox()
    for packet_id in (1, 2, 3):
        inbox.comes(packet_id, 2)
    inbox.got[0].ack()
    inbox.again()
    assert not inbox.got[1].ack(), "nothing can leave yet"
    for packet_id in (1, 2, 3):
        inbox.comes(packet_id, 2, dup=True)
    assert len(inbox.got) == 3
    assert inbox.wire.taken() == ["50020001", "50020002"]
    assert inbox.got[2].ack()
    assert inbox.wire.taken() == ["50020003"]


def test_qos_2_that_was_left_comes_again_with_the_next_connection() -> None:
    inbox = Inbox()
    inbox.comes(1, 2)
    inbox.got[0].leave()
    inbox.comes(1, 2, dup=True)
    assert len(inbox.got) == 1
    inbox.again()
    inbox.comes(1, 2, dup=True)
    assert len(inbox.got) == 2 and inbox.got[1].ack()
    assert inbox.wire.taken() == ["50020001"]


@pytest.mark.parametrize("present", [False, True])
def test_a_packet_id_says_nothing_where_the_session_or_the_message_is_another(present: bool) -> None:
    inbox = Inbox()
    inbox.comes(1, 2)
    inbox.got[0].ack()
    inbox.again(present)
    inbox.comes(1, 2, payload=b"y" if present else b"x")
    assert len(inbox.got) == 2


def test_a_refusal_ends_qos_2() -> None:
    inbox = Inbox()
    inbox.comes(1, 2)
    inbox.got[0].ack(0x83)
    inbox.comes(1, 2)
    assert len(inbox.got) == 2 and inbox.incoming.slots == 1


def test_slots_of_the_receive_maximum() -> None:
    inbox = Inbox(receive_maximum=3)
    inbox.comes(1)
    inbox.comes(2, 2)
    inbox.comes(3)
    assert inbox.incoming.slots == 3
    inbox.got[0].ack()
    inbox.got[1].ack()
    assert inbox.incoming.slots == 2, "QoS 2 gives its own back with PUBCOMP"
    inbox.incoming.on_pubrel(2, inbox.wire)
    inbox.got[2].leave()
    assert inbox.incoming.slots == 1
    for packet_id in range(4, 33):
        inbox.comes(packet_id)
    with pytest.raises(PacketError) as caught:
        inbox.comes(33)
    assert caught.value.reason == 0x93


def test_a_topic_alias_is_not_allowed() -> None:
    inbox = Inbox()
    with pytest.raises(PacketError) as caught:
        inbox.incoming.on_publish(make_publish("t", b"x", alias=1))
    assert caught.value.reason == 0x94


def test_everything_that_a_message_carries() -> None:
    said = Properties()
    said.content_type, said.response_topic, said.correlation_data = "a/b", "r", b"\0c"
    said.user_properties = [("k", "1"), ("a", "2"), ("k", "3")]
    props = encode_properties(said, packets.PUBLISH)[1:]
    inbox = Inbox()
    inbox.incoming.on_publish(
        make_publish("t/ä", b"x", 1, True, True, 9, props, expiry=60, subscription_identifiers=[4, 7])
    )
    one = inbox.got[0]
    assert (one.topic, one.payload, one.qos, one.retain, one.dup, one.packet_id) == ("t/ä", b"x", 1, True, True, 9)
    assert (one.expiry_s, one.subscription_identifiers) == (60, [4, 7])
    assert one.user_properties == [("k", "1"), ("a", "2"), ("k", "3")]
    found = one.properties
    assert (found.content_type, found.response_topic, found.correlation_data) == ("a/b", "r", b"\0c")
    assert (found.message_expiry_interval, found.subscription_identifiers) == (60, [4, 7])
    assert found.payload_format_indicator == -1


def test_many_topics() -> None:
    inbox = Inbox()
    for number in range(5000):
        inbox.incoming.on_publish(make_publish(f"t/{number}"))
    inbox.incoming.on_publish(make_publish("t/0"))
    assert [one.topic for one in inbox.got] == [*(f"t/{number}" for number in range(5000)), "t/0"]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("comes"), st.integers(1, 2)),
        st.tuples(st.sampled_from(["ack", "leave"]), st.integers(0, 30)),
        st.tuples(st.just("again"), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_whatever_happens_answers_are_in_order_and_nothing_is_answered_twice(steps: list[tuple[str, int]]) -> None:
    """A broker that sends again, in order, what it has no answer for, each time the client comes back."""
    inbox = Inbox()
    sent: dict[int, int] = {}  # packet id: QoS, in the order in which they were sent first
    answered: dict[int, list[int]] = {1: [], 2: []}  # on this connection
    order: list[int] = []  # in which they came on this connection
    number = 0

    def take() -> None:
        for packet in map(bytes.fromhex, inbox.wire.taken()):
            qos, packet_id = (1 if packet[0] == 0x40 else 2), int.from_bytes(packet[2:4], "big")
            answered[qos].append(packet_id)
            assert sent.pop(packet_id) == qos, "answered twice, or as another"
            if qos == 2:
                inbox.incoming.on_pubrel(packet_id, inbox.wire)
                assert inbox.wire.taken() == [f"7002{packet_id:04x}"]

    for what, n in steps:
        if what == "comes":
            number += 1
            sent[number] = n
            order.append(number)
            inbox.comes(number, n, payload=b"%d" % number)
        elif what == "again":
            inbox.again()
            answered, order = {1: [], 2: []}, list(sent)
            for packet_id, qos in list(sent.items()):
                inbox.comes(packet_id, qos, dup=True, payload=b"%d" % packet_id)
                take()
        elif n < len(inbox.got):
            one = inbox.got[n]
            one.ack() if what == "ack" else one.leave()
        take()
        for qos in (1, 2):
            places = [order.index(packet_id) for packet_id in answered[qos]]
            assert places == sorted(places)
    handed = [one.packet_id for one in inbox.got if one.qos == 2 and one._state != 2]
    assert len(handed) == len(set(handed)), "QoS 2 once, unless it was left"
    for one in inbox.got:
        one.ack()
    take()
    settled = {one.packet_id for one in inbox.got if not one.lost and one._state == 1}
    assert not settled & sent.keys(), "all that is settled is answered in the end"
