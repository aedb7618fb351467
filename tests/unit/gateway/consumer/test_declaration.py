"""Registrations: what is refused before anything is sent, and what goes on the wire."""

from typing import Any

import pytest

from gateway.consumer.declaration import Registration, Subscription, check_overlaps, subscriptions
from gateway.consumer.outcome import drop, retry_after
from gateway.consumer.source import DeclarationError, MqttFilter, MqttTopic, Source


async def handler(message: object) -> None:
    pass


async def other(message: object) -> None:
    pass


def one(source: Source, **said: Any) -> Registration:
    return Registration(said.pop("handler", handler), source, **said)


def wire(*registrations: Registration, version: int = 5) -> dict[str, int]:
    return {each.wire_filter: each.qos for each in subscriptions(registrations, version)}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"qos": 3}, "expected 0, 1 or 2"),
        ({"shared": "a/b"}, r"expected a name without /"),
        ({"shared": ""}, r"expected a name without /"),
        ({"max_attempts": 0}, "expected 1 or more"),
        ({"max_workers": 0}, "max_workers=0"),
        ({"batch": 0}, "batch=0"),
        ({"dead_letter": "a/#"}, "wildcard"),
        ({"dead_letter": ""}, "is no topic"),
        ({"dead_letter": "t"}, "would come straight back"),
        ({"on_error": "ignore"}, '"drop", "retry", "stop"'),
        ({"on_decode_error": "ignore"}, '"dead_letter", "drop", "retry", "stop"'),
        ({"decode": "xml"}, "decode='xml'"),
    ],
)
def test_what_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why) as raised:
        subscriptions([one(MqttTopic("t"), **said)], 5)
    assert "\n" not in str(raised.value)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(DeclarationError, match="nothing is subscribed to"):
        subscriptions([], 5)


@pytest.mark.parametrize(
    "said",
    [{"max_attempts": 3}, {"max_attempts": 3, "dead_letter": "dead"}, {"on_error": retry_after(1)},
     {"on_decode_error": retry_after(1)}],
)  # fmt: skip
def test_a_filter_with_retries_needs_a_topic(said: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match="expected MqttFilter"):
        subscriptions([one(MqttFilter("press/#"), **said)], 5)
    assert wire(one(MqttFilter("press/#", retry_to="press/retry"), **said)) == {"press/#": 1}


@pytest.mark.parametrize(
    "said", [{}, {"dead_letter": "dead"}, {"max_attempts": 1}, {"on_error": drop()}, {"on_error": "retry"}]
)
def test_a_filter_that_makes_no_copies_needs_none(said: dict[str, Any]) -> None:
    assert wire(one(MqttFilter("press/#"), **said)) == {"press/#": 1}


def test_attempts_on_3_1_1_are_refused_with_the_reason() -> None:
    with pytest.raises(DeclarationError, match=r"max_attempts needs MQTT 5\.0: attempts are counted in"):
        subscriptions([one(MqttTopic("t"), max_attempts=3)], 4)
    with pytest.raises(DeclarationError, match=r"shared subscriptions need MQTT 5\.0"):
        subscriptions([one(MqttTopic("t"), shared="g")], 4)
    assert wire(one(MqttTopic("t"), dead_letter="dead"), version=4) == {"t": 1}


def test_a_dead_letter_that_any_own_filter_reads_is_refused() -> None:
    first = one(MqttTopic("a"), dead_letter="press/dead")
    for reader in (MqttFilter("press/#"), MqttTopic("press/dead"), MqttFilter("+/dead")):
        with pytest.raises(DeclarationError, match=r'dead_letter="press/dead" is read by'):
            subscriptions([first, one(reader, handler=other)], 5)
        with pytest.raises(DeclarationError, match="come straight back"):
            subscriptions([first, one(reader, handler=other, shared="g")], 5)


def test_a_dead_letter_that_is_a_topic_of_copies_is_refused() -> None:
    first = one(MqttTopic("a"), dead_letter="again")
    second = one(MqttFilter("b/#", retry_to="again"), handler=other, max_attempts=2)
    for order in ([first, second], [second, first]):
        with pytest.raises(DeclarationError, match="topic of copies"):
            subscriptions(order, 5)
    with pytest.raises(DeclarationError, match="are both"):
        subscriptions([one(MqttFilter("b/#", retry_to="again"), max_attempts=2, dead_letter="again")], 5)


def test_copies_that_no_filter_reads_are_read_by_their_handler() -> None:
    first = one(MqttFilter("press/#", retry_to="press-retry"), qos=2, max_attempts=3, shared="g")
    assert wire(first) == {"$share/g/press/#": 2, "$share/g/press-retry": 2}
    second = one(MqttTopic("press-retry"), handler=other)
    assert wire(first, second) == {"$share/g/press/#": 2, "press-retry": 1}


def test_one_filter_is_one_subscription_whose_handlers_take_turns() -> None:
    made = subscriptions([one(MqttTopic("t")), one(MqttTopic("t"), handler=other)], 5)
    assert [[each.handler for each in subscription.registrations] for subscription in made] == [[handler, other]]
    with pytest.raises(DeclarationError, match="QoS 1 and 2"):
        subscriptions([one(MqttTopic("t")), one(MqttTopic("t"), handler=other, qos=2)], 5)


def test_identifiers_are_those_of_the_filter_whatever_the_order() -> None:
    first, second = one(MqttTopic("a")), one(MqttTopic("b"), handler=other)
    there = {each.wire_filter: each.identifier for each in subscriptions([first, second], 5)}
    back = {each.wire_filter: each.identifier for each in subscriptions([second, first], 5)}
    assert there == back
    assert len(set(there.values())) == 2
    assert all(1 <= identifier <= 268_435_455 for identifier in there.values())


def test_overlaps_are_refused_where_nothing_tells_them_apart() -> None:
    def made(*filters: str) -> list[Subscription]:
        return subscriptions([one(MqttFilter(filter), handler=object()) for filter in filters], 5)

    check_overlaps(made("a/#", "b/#", "c"), "why")
    with pytest.raises(DeclarationError, match=r'"a/b" and "a/#" overlap, and why'):
        check_overlaps(made("a/#", "b/#", "a/b"), "why")


def test_how_a_handler_is_called() -> None:
    class Callee:
        async def method(self, message: object) -> None: ...
        async def __call__(self, message: object) -> None: ...

    assert one(MqttTopic("t")).is_async
    assert one(MqttTopic("t"), handler=Callee().method).is_async
    assert one(MqttTopic("t"), handler=Callee()).is_async
    assert not one(MqttTopic("t"), handler=print).is_async
    assert one(MqttTopic("t"), handler=Callee()).name == "Callee"
