import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkplug.topic import MessageType, NodeId, StateTopic, Topic, TopicError, build, build_state, check_id, parse

NODE = NodeId("plant", "press 1")
ids = st.text(st.characters(exclude_characters="+/#\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize("type", list(MessageType))
def test_a_topic_has_a_device_exactly_for_the_types_of_devices(type: MessageType) -> None:
    with_device, without = f"spBv1.0/plant/{type}/press 1/d1", f"spBv1.0/plant/{type}/press 1"
    good, bad = (with_device, without) if type.startswith("D") else (without, with_device)
    device = "d1" if type.startswith("D") else None
    assert parse(good) == Topic(type, NODE, device)
    assert build(type, NODE, device) == good == str(parse(good))
    with pytest.raises(TopicError, match="device id"):
        parse(bad)
    with pytest.raises(TopicError, match="device id"):
        build(type, NODE, None if device else "d1")


@given(ids, ids, ids)
def test_what_is_built_is_parsed(group: str, node: str, device: str) -> None:
    topic = build(MessageType.DDATA, NodeId(group, node), device)
    assert parse(topic) == Topic(MessageType.DDATA, NodeId(group, node), device)


def test_state_topics_of_both_forms() -> None:
    assert parse("spBv1.0/STATE/scada") == StateTopic("scada")
    assert parse("STATE/scada") == StateTopic("scada", legacy=True)
    assert build_state("scada") == "spBv1.0/STATE/scada"
    assert build_state("scada", legacy=True) == "STATE/scada"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "namespace"),
        ("spAv1.0/g/NDATA/e", "namespace"),
        ("spbv1.0/g/NDATA/e", "namespace"),
        ("STATE/a/b", "namespace"),
        ("STATE/", "host id is empty"),
        ("spBv1.0", "levels"),
        ("spBv1.0/g/NDATA", "levels"),
        ("spBv1.0/g/DDATA/e/d/x", "levels"),
        ("spBv1.0/g/STATE/e", "no message type 'STATE'"),  # as one wrapper library has it
        ("spBv1.0/g/ndata/e", "no message type"),
        ("spBv1.0//NDATA/e", "group id is empty"),
        ("spBv1.0/g/NDATA/", "edge node id is empty"),
        ("spBv1.0/g/DDATA/e/", "device id is empty"),
        ("spBv1.0/g+/NDATA/e", "group id 'g\\+' holds '\\+'"),
        ("spBv1.0/g/NDATA/e#", "holds '#'"),
        ("spBv1.0/STATE/a\0", "host id"),
    ],
)
def test_what_is_no_topic_is_refused_with_the_reason(topic: str, reason: str) -> None:
    with pytest.raises(TopicError, match=reason):
        parse(topic)


def test_a_group_may_be_named_like_the_state_level() -> None:
    assert parse("spBv1.0/STATE/NDATA/e") == Topic(MessageType.NDATA, NodeId("STATE", "e"))


@pytest.mark.parametrize("value", ["", "a/b", "a+", "#", "a\0", "\ud800", "ä" * 32768])
def test_ids_that_no_topic_takes(value: str) -> None:
    with pytest.raises(TopicError, match=r"^node id"):
        check_id("node id", value)


def test_a_topic_of_long_ids_is_too_long() -> None:
    with pytest.raises(TopicError, match="65550 bytes"):
        build(MessageType.NDATA, NodeId("g" * 32768, "e" * 32767))
    with pytest.raises(TopicError, match="topic has"):
        build_state("h" * 65530)
