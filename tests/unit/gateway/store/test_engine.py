"""What all engines share."""

from gateway.store.engine import CursorTaken, EngineDown, EngineError, EngineRefused, wanted


def test_a_topic_is_wanted_when_one_of_the_filters_matches() -> None:
    assert wanted(["a/+", "b/#"], "b/c/d")
    assert not wanted(["a/+", "b/#"], "a/b/c")
    assert not wanted([], "a")


def test_what_can_go_wrong_is_one_kind() -> None:
    assert all(issubclass(one, EngineError) for one in (CursorTaken, EngineDown, EngineRefused))
