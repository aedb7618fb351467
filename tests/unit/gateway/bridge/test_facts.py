"""The facts of a node: counting, bounds, and the way to JSON and back."""

import json

from gateway.bridge.facts import LOSS_WINDOWS_MAX, LossWindow, NodeFacts


def saw(facts: NodeFacts, message_type: str, qos: int) -> None:
    facts.qos.setdefault(message_type, [0, 0, 0])[qos] += 1


def test_the_data_qos_is_the_lowest_that_came() -> None:
    facts = NodeFacts("plant/press")
    assert facts.data_qos() is None
    saw(facts, "NBIRTH", 0)
    assert facts.data_qos() is None, "a birth is always at QoS 0 and says nothing of the data"
    saw(facts, "DDATA", 1)
    assert facts.data_qos() == 1
    saw(facts, "NDATA", 0)
    assert facts.data_qos() == 0
    assert facts.qos == {"NBIRTH": [1, 0, 0], "DDATA": [0, 1, 0], "NDATA": [1, 0, 0]}


def test_a_mark_forgets_the_qos_of_before_as_soon_as_data_comes() -> None:
    facts = NodeFacts("plant/press")
    saw(facts, "NDATA", 0)
    facts.mark()
    assert facts.data_qos() == 0, "nothing came since"
    saw(facts, "DDATA", 1)
    assert facts.data_qos() == 1
    saw(facts, "NDATA", 0)
    assert facts.data_qos() == 0
    assert NodeFacts.from_dict(json.loads(json.dumps(facts.as_dict()))).data_qos() == 0


def test_the_oldest_loss_windows_go() -> None:
    facts = NodeFacts("plant/press")
    for number in range(LOSS_WINDOWS_MAX + 3):
        facts.lost(LossWindow(number, number + 1, "seq_gap", 1))
    assert [window.from_ms for window in facts.loss_windows] == list(range(3, LOSS_WINDOWS_MAX + 3))


def test_facts_survive_json() -> None:
    facts = NodeFacts("plant/press", "press-1", 4, clean=True, keep_alive_s=30, will_qos=1, connects=2, client_ids=1)
    saw(facts, "DDATA", 0)
    facts.lost(LossWindow(5, 9, "keep_alive"))
    stored = json.loads(json.dumps(facts.as_dict()))
    assert NodeFacts.from_dict(stored) == facts
    assert NodeFacts.from_dict({**stored, "of a later version": 1}) == facts
