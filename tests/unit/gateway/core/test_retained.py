import pytest

from gateway.core.message import Message
from gateway.core.retained import Retained


def message(topic: str, payload: bytes = b"x", deadline: int = 0, props: bytes = b"") -> Message:
    return Message(topic.encode(), payload, 1, True, props, deadline)


def holding(*topics: str) -> Retained:
    retained = Retained()
    for topic in topics:
        retained.set(topic, message(topic))
    return retained


def topics(retained: Retained, filter: str) -> list[str]:
    for topic, found in retained.match(filter):
        assert found.topic == topic.encode()
        assert found is retained.get(topic)
    return [topic for topic, _ in retained.match(filter)]


def test_the_last_message_of_a_topic_stays() -> None:
    retained = Retained()
    first, second = message("a/b"), message("a/b")
    assert retained.get("a/b") is None
    assert retained.set("a/b", first) is None
    assert retained.set("a/b", second) is first
    assert len(retained) == 1
    assert retained.get("a/b") is second
    assert retained.match("a/b") == [("a/b", second)]
    assert retained.remove("a/b") is second
    assert retained.remove("a/b") is None
    assert len(retained) == 0
    assert retained.match("#") == []


TOPICS = ["a", "a/b", "a/b/c", "/", "/b", "$SYS/b", "b", "a/", "$SYS", "a/$x"]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("#", ["a", "a/b", "a/b/c", "/", "/b", "b", "a/", "a/$x"]),
        ("+", ["a", "b"]),
        ("+/+", ["a/b", "/", "/b", "a/", "a/$x"]),
        ("+/b", ["a/b", "/b"]),
        ("a/#", ["a", "a/b", "a/b/c", "a/", "a/$x"]),
        ("a/+", ["a/b", "a/", "a/$x"]),
        ("a/+/#", ["a/b", "a/b/c", "a/", "a/$x"]),
        ("+/#", ["a", "a/b", "a/b/c", "/", "/b", "b", "a/", "a/$x"]),
        ("/+", ["/", "/b"]),
        ("$SYS/#", ["$SYS/b", "$SYS"]),
        ("$SYS/+", ["$SYS/b"]),
        ("a/b", ["a/b"]),
        ("a/c", []),
        ("c/#", []),
        ("a/b/c/+", []),
    ],
)
def test_match_in_the_order_of_coming_up(filter: str, found: list[str]) -> None:
    assert topics(holding(*TOPICS), filter) == found


def test_a_topic_set_again_keeps_its_place_and_one_removed_loses_it() -> None:
    retained = holding("a", "b", "c")
    retained.set("a", message("a"))
    assert topics(retained, "+") == ["a", "b", "c"]
    retained.remove("b")
    retained.set("b", message("b"))
    assert topics(retained, "+") == ["a", "c", "b"]


def test_bytes_are_those_held() -> None:
    retained = Retained()
    retained.set("ä/b", message("ä/b", b"12345"))
    assert retained.bytes == 4 + 5
    retained.set("ä/b", message("ä/b", b"1", props=b"123"))
    assert retained.bytes == 4 + 1 + 3
    retained.set("c", message("c", b"1", deadline=5))
    assert retained.bytes == 8 + 2
    retained.expired(5)
    assert retained.bytes == 8
    retained.remove("ä/b")
    assert retained.bytes == 0


def test_messages_expire_at_their_deadline_earliest_first() -> None:
    retained = holding("forever")
    retained.set("late", message("late", deadline=200))
    retained.set("early", message("early", deadline=100))
    retained.set("later", message("later", deadline=300))
    assert retained.expired(99) == []
    assert retained.expired(200) == ["early", "late"]
    assert retained.expired(200) == []
    assert topics(retained, "#") == ["forever", "later"]


def test_only_the_deadline_of_the_message_held_counts() -> None:
    retained = Retained()
    retained.set("later", message("later", deadline=100))
    retained.set("later", message("later", deadline=200))
    retained.set("never", message("never", deadline=100))
    retained.set("never", message("never"))
    retained.set("sooner", message("sooner", deadline=500))
    retained.set("sooner", message("sooner", deadline=50))
    retained.set("gone", message("gone", deadline=100))
    retained.remove("gone")
    retained.set("back", message("back", deadline=150))
    retained.remove("back")
    retained.set("back", message("back", deadline=150))
    assert retained.expired(100) == ["sooner"]
    assert retained.expired(1000) == ["back", "later"]
    assert topics(retained, "#") == ["never"]


def test_a_topic_set_over_and_over_does_not_pile_up_deadlines() -> None:
    retained = Retained()
    for i in range(100):
        retained.set(f"still/{i}", message("still/0", deadline=1_000_000 + i * 37 % 100))
    for deadline in range(1, 5000):
        retained.set("busy", message("busy", deadline=deadline))
    assert retained.deadlines() < 300
    assert retained.expired(4998) == []
    assert retained.expired(4999) == ["busy"]
    for now in range(100):
        assert retained.expired(1_000_000 + now) == [f"still/{now * 73 % 100}"]


def test_the_longest_topic_needs_no_recursion() -> None:
    topic = "/" * 65_535
    retained = holding(topic)
    assert topics(retained, "#") == [topic]
    assert topics(retained, "+" + "/+" * 65_535) == [topic]
    assert topics(retained, "/" * 65_535) == [topic]
    assert retained.levels() == 65_537
    retained.remove(topic)
    assert retained.levels() == 1
    retained.set(topic, message(topic))
    del retained
