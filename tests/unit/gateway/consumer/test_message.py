"""Messages, and deliveries that several handlers read."""

import pytest

from gateway.consumer.message import Joint, Message
from gateway.consumer.settlement import RETRY_COUNT
from gateway.mqtt.packets import Properties
from tests.unit.gateway.consumer.rig import Given


def test_what_a_handler_sees() -> None:
    properties = Properties()
    properties.content_type, properties.response_topic, properties.correlation_data = "text/plain", "answers", b"7"
    properties.message_expiry_interval = 60
    properties.user_properties = [("a", "1"), (RETRY_COUNT, "2")]
    message = Message(21.5, Given("press/7", b"21.5", 1, properties, retain=True, dup=True), RETRY_COUNT)
    assert (message.value, message.topic, message.payload, message.qos) == (21.5, "press/7", b"21.5", 1)
    assert (message.retain, message.dup, message.attempt, message.expiry_s) == (True, True, 3, 60)
    assert (message.content_type, message.response_topic, message.correlation_data) == ("text/plain", "answers", b"7")
    assert message.user_properties[0] == ("a", "1")
    assert repr(message) == "Message('press/7', attempt 3, 21.5)"


@pytest.mark.parametrize(
    ("says", "answer"),
    [("aaa", "ack"), ("laa", "left"), ("aal", "left"), ("lll", "left"), ("aa", ""), ("la", "")],
)
def test_a_joint_delivery_is_answered_when_all_are_done_with_it(says: str, answer: str) -> None:
    given = Given("t", b"", 1)
    joint = Joint(given, 3)
    for one in says:
        if one == "a":
            joint.ack()
        else:
            joint.leave()
    assert given.answer == answer
