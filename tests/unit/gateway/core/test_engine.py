"""What the core knows of an engine."""

from gateway.core.engine import CLOSED, FILTERS, EngineState


def test_captured_topics_are_those_of_the_filters() -> None:
    engine = EngineState()
    engine.capture = ["plant/#", "+/alarm"]
    assert engine.captures("plant/line1/count")
    assert engine.captures("plant")
    assert engine.captures("x/alarm")
    assert not engine.captures("x/y/alarm")
    assert not engine.captures("$SYS/alarm")


def test_of_filters_in_a_row_the_last_counts() -> None:
    engine = EngineState()
    engine.tell(FILTERS, "a", ["x"])
    engine.tell(FILTERS, "a", ["x", "y"])
    engine.tell(FILTERS, "b", ["z"])
    engine.tell(CLOSED, "a", [])
    engine.tell(FILTERS, "a", ["w"])
    assert [(e.kind, e.client_id, e.filters) for e in engine.events] == [
        (FILTERS, "a", ["x", "y"]), (FILTERS, "b", ["z"]), (CLOSED, "a", []), (FILTERS, "a", ["w"]),
    ]  # fmt: skip


def test_it_is_busy_while_something_waits_for_the_driver() -> None:
    engine = EngineState()
    assert not engine.busy()
    engine.settled.append(("a", 1))
    assert engine.busy()
