"""Live values of a node, of the broker's answers."""

import base64

from gateway.web.values import CHARS_MAX, METRICS_MAX, NodeValues
from tests import spb_bytes as spb

BIRTH = spb.nbirth(0, 0, 1_700_000_000_000, spb.metric("Strokes", 5, alias=1), spb.metric("Oil", 60, alias=2))


def said(type: str, payload: bytes, device: str = "") -> list[str]:
    return [type, device, base64.b64encode(payload).decode()]


def answer(number: int, *messages: list[str], fresh: bool = False) -> dict[str, object]:
    return {"fresh": fresh, "number": number, "said": list(messages)}


def shown(values: NodeValues) -> dict[str, str]:
    return {f"{row['device']}/{metric['name']}": metric["value"] for row in values.rows() for metric in row["metrics"]}


def test_a_birth_gives_names_and_data_gives_values() -> None:
    values = NodeValues("g/e")
    values.take(answer(1, said("NBIRTH", BIRTH), fresh=True))
    assert shown(values) == {"/Oil": "60", "/Strokes": "5", "/bdSeq": "0"}
    assert not any(metric["said"] for row in values.rows() for metric in row["metrics"])
    values.take(answer(2, said("NDATA", spb.payload(spb.metric("", 7, alias=1), seq=1))))
    assert shown(values)["/Strokes"] == "7"
    (node,) = values.rows()
    by_name = {metric["name"]: metric for metric in node["metrics"]}
    assert (by_name["Strokes"]["live"], by_name["Strokes"]["said"], by_name["Oil"]["live"]) == (True, True, False)
    assert by_name["Strokes"]["type"] == "Int64"
    values.take(answer(2))
    assert not any(metric["live"] for row in values.rows() for metric in row["metrics"])


def test_devices_stand_below_their_node() -> None:
    values = NodeValues("g/e")
    device = spb.payload(spb.metric("Level", 3, alias=9), seq=1)
    values.take(answer(1, said("NBIRTH", BIRTH), said("DBIRTH", device, "tank"), fresh=True))
    assert [row["device"] for row in values.rows()] == ["", "tank"]


def test_a_fresh_answer_forgets_what_was_before() -> None:
    values = NodeValues("g/e")
    values.take(answer(1, said("NBIRTH", BIRTH), fresh=True))
    values.take(answer(5, said("NBIRTH", spb.nbirth(1, 0)), fresh=True))
    assert shown(values) == {"/bdSeq": "1"}
    assert values.number == 5


def test_what_cannot_be_read_is_counted_and_the_rest_goes_on() -> None:
    values = NodeValues("g/e")
    values.take(answer(1, said("NBIRTH", b"\xff\xff"), said("NDATA", BIRTH), ["NDATA", "", "?"], fresh=True))
    assert values.unreadable >= 1
    assert "/Strokes" in shown(values)


def test_many_metrics_and_long_values_are_cut() -> None:
    values = NodeValues("g/e")
    metrics = [spb.metric(f"m{number:04}", 1) for number in range(METRICS_MAX + 5)]
    text = spb.chunk(1, b"a") + spb.number(4, 12) + spb.chunk(15, b"x" * 500)
    values.take(answer(1, said("NBIRTH", spb.payload(text, *metrics, seq=0)), fresh=True))
    assert values.left_out == 6
    assert len(shown(values)["/a"]) == CHARS_MAX
