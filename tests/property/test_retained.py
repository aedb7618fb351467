"""Retained messages against a plain dict and the plain definition of a match."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.message import Message
from gateway.core.retained import Retained
from gateway.core.topics import check_filter, matches

LEVEL = st.sampled_from(["", "a", "b", "$", "$SYS"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTER = st.lists(LEVEL | st.sampled_from(["+", "#"]), min_size=1, max_size=4).map("/".join)
# what to do, the topic, the deadline of what is set or the time of a tick
STEP = st.tuples(st.sampled_from(["set", "set", "remove", "tick"]), TOPIC, st.integers(0, 20))


@given(st.lists(STEP, max_size=60), st.lists(FILTER.filter(lambda f: check_filter(f, 0)), min_size=1, max_size=5))
def test_retained_is_a_dict_with_filters(steps: list[tuple[str, str, int]], filters: list[str]) -> None:
    retained = Retained()
    model: dict[str, Message] = {}
    for what, topic, number in steps:
        if what == "set":
            message = Message(topic.encode(), b"x" * number, 1, True, b"", number)
            assert retained.set(topic, message) is model.get(topic)
            model[topic] = message
        elif what == "remove":
            assert retained.remove(topic) is model.pop(topic, None)
        else:
            due = sorted((m.deadline, t) for t, m in model.items() if 0 < m.deadline <= number)
            assert retained.expired(number) == [t for _, t in due]
            for _, t in due:
                del model[t]
        assert len(retained) == len(model)
        assert retained.bytes == sum(len(m.topic) + len(m.payload) for m in model.values())
    for filter in filters:
        assert retained.match(filter) == [(t, m) for t, m in model.items() if matches(filter, t)]
    for topic in list(model):
        assert retained.get(topic) is model[topic]
        retained.remove(topic)
    assert retained.levels() == 1
