"""Topics, filters and what is refused about them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.consumer.source import DeclarationError, MqttFilter, MqttTopic, overlap
from gateway.core.topics import check_filter, matches


@pytest.mark.parametrize("topic", ["press/+/temp", "press/#", "#", "a+"])
def test_a_wildcard_in_a_topic_is_refused(topic: str) -> None:
    with pytest.raises(DeclarationError, match="a wildcard needs MqttFilter"):
        MqttTopic(topic)


@pytest.mark.parametrize("topic", ["", "a\0b", "x" * 65_536, "\ud800"])
def test_what_is_no_topic_is_refused(topic: str) -> None:
    with pytest.raises(DeclarationError, match="is no topic"):
        MqttTopic(topic)


@pytest.mark.parametrize("filter", ["", "a/#/b", "a+", "a#", "\0"])
def test_what_is_no_filter_is_refused(filter: str) -> None:
    with pytest.raises(DeclarationError, match="no topic filter"):
        MqttFilter(filter)


def test_a_share_is_not_written_into_the_filter() -> None:
    with pytest.raises(DeclarationError, match='shared="GROUP"'):
        MqttFilter("$share/g/a")


@pytest.mark.parametrize("retry_to", ["a/+", "#", ""])
def test_copies_need_a_topic(retry_to: str) -> None:
    with pytest.raises(DeclarationError, match="retry_to"):
        MqttFilter("a/#", retry_to=retry_to)


def test_a_topic_is_its_own_address() -> None:
    assert MqttTopic("press/7").retry_to == "press/7"
    assert MqttFilter("press/#").retry_to is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("a", "a", True), ("a", "b", False), ("a/#", "a", True), ("a/#", "a/b/c", True), ("a/+", "a", False),
     ("a/+", "+/b", True), ("a/+/c", "a/b/#", True), ("a/+/c", "a/b/d", False), ("#", "$SYS/x", False),
     ("+/x", "$SYS/x", False), ("$SYS/#", "$SYS/+", True), ("$SYS/#", "#", False), ("+", "/+", False),
     ("+/+", "/#", True),
     ("a/b/#", "a/+", True), ("a/b/c/#", "a/+", False)],
)  # fmt: skip
def test_overlap(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


LEVELS = st.lists(st.sampled_from(["a", "b", "+", "$c", ""]), min_size=1, max_size=3)
FILTERS = st.builds(lambda levels, rest: "/".join(levels + rest), LEVELS, st.sampled_from([[], ["#"]])).filter(
    lambda filter: check_filter(filter, 0)
)
TOPICS = st.lists(st.sampled_from(["a", "b", "$c", ""]), min_size=1, max_size=4).map("/".join).filter(bool)


@given(FILTERS, FILTERS, TOPICS)
def test_filters_that_share_a_topic_overlap(one: str, other: str, topic: str) -> None:
    if matches(one, topic) and matches(other, topic):
        assert overlap(one, other)
