"""The verdict finds what it is there to find: a run without a fault, then one fault at a time."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.drill.record import HISTORICAL, LATE, NBIRTH, SKIPPED, Delivered, Sent, Session
from tests.drill.verdict import Told, accounts, judge

T = 1_700_000_000_000


def session(number: int, run: int, flags: list[int], goodbye: bool = False) -> Session:
    """Messages 100 * number + 0, 1 ... sent at T + 1000 * number + 10 * index; its will is -1."""
    made = Session(100 * number + 99, run)
    made.goodbye = goodbye
    for index, each in enumerate(flags):
        made.add(100 * number + index, T + 1000 * number + 10 * index, each)
    return made


def got(*numbers: int, late: tuple[int, ...] = ()) -> list[Delivered]:
    """Each received 1 ms after it was sent, a will half a second after the first of its session."""
    return [
        Delivered(
            10 + at, T + 1000 * (number // 100) + (500 if number % 100 == 99 else 10 * (number % 100) + 1), number, at,
            LATE if number in late else 0,
        )
        for at, number in enumerate(numbers)
    ]  # fmt: skip


def window(why: str, start: int, end: int, messages: int | None = None) -> dict[str, Any]:
    return {"why": why, "from_ms": T + start, "to_ms": T + end, "messages": messages}


def told() -> Told:
    """A gap of two in the first session, which a kill ends with two on their way; the second one's link goes dead."""
    sent = Sent("g/e")
    sent.sessions = [
        session(1, 0, [NBIRTH, 0, SKIPPED, SKIPPED, 0, NBIRTH, 0, 0]),
        session(2, 1, [NBIRTH, HISTORICAL, 0, 0]),
        session(3, 1, []),
        session(4, 1, [NBIRTH, 0], goodbye=True),
    ]
    sent.asked = {0: [5.0]}
    came = got(100, 101, 104, 105, 199, 200, 201, 202, 299, 400, 401, late=(201,))
    windows = [window("seq_gap", 1011, 1041, 2), window("restart", 900, 2001), window("connection", 2021, 4001)]
    facts = {"g/e": {"loss_windows": windows, "rebirths_asked": 1, "rebirths_answered": 1}}
    return Told([sent], came, came, 9, 9, facts, 60, 10)


def broken(told: Told) -> list[str]:
    found, strange = accounts(told)
    return [line.what for line in judge(told, found, strange) if line.faults]


def test_nothing_is_wrong() -> None:
    found, _ = accounts(told())
    assert broken(told()) == []
    assert [(one.why, one.lost) for one in found[0].windows] == [("seq_gap", 2), ("restart", 2), ("connection", 1)]
    assert (found[0].delivered, found[0].deaths, found[0].late, found[0].lost) == (11, 2, 1, 5)


def without(told: Told, *numbers: int) -> Told:
    return told._replace(away=[one for one in told.away if one.digest not in numbers])


def moved(told: Told, number: int, place: int) -> Told:
    """A message at another place, with the ids as they would be there."""
    order = [one.digest for one in told.away if one.digest != number]
    order.insert(place, number)
    came = got(*order, late=(201,))
    return told._replace(there=came, away=came)


def listed(told: Told, at: int, **change: Any) -> Told:
    windows = [dict(one) for one in told.facts["g/e"]["loss_windows"]]
    windows[at] |= change
    return told._replace(facts={"g/e": {**told.facts["g/e"], "loss_windows": windows}})


def asked(told: Told, *times: float) -> Told:
    told.sent[0].asked = {0: list(times)}
    count = {"rebirths_asked": len(times), "rebirths_answered": len(times)}
    return told._replace(facts={"g/e": {**told.facts["g/e"], **count}})


def flagged(told: Told, session: int, index: int, flags: int) -> Told:
    """Another kind of message."""
    told.sent[0].sessions[session].flags[index] = flags
    return told


def again(told: Told) -> Told:
    one = told.away[3]
    return told._replace(away=[*told.away, one._replace(id=99)], there=[*told.there, one._replace(id=99)])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda told: without(told, 105), "lost after ingest"),
        (lambda told: told._replace(there=told.there[:-1]), "lost after ingest"),
        (lambda told: told._replace(queued=8), "lost after ingest"),
        (lambda told: told._replace(away=told.away[::-1]), "only grow"),
        (lambda told: told._replace(away=[*told.away, told.away[-1]]), "only grow"),
        (again, "once"),
        (lambda told: told._replace(away=[told.away[0]._replace(digest=7), *told.away[1:]]), "byte for byte"),
        (lambda told: moved(told, 104, 4), "its order"),
        (lambda told: moved(told, 200, 8), "births before data"),
        (lambda told: moved(told, 202, 9), "its order"),
        (lambda told: without(told, 101), "its order"),
        (lambda told: without(told, 401), "its order"),
        (lambda told: without(told, 400, 401), "its order"),
        (lambda told: without(told, 199), "its death"),
        (lambda told: told._replace(away=[one._replace(flags=0) for one in told.away]), "late is"),
        (lambda told: told._replace(away=[one._replace(flags=LATE) for one in told.away]), "late is"),
        (lambda told: told._replace(facts={}), "lists the windows"),
        (lambda told: listed(told, 0, messages=3), "lists the windows"),
        (lambda told: listed(told, 0, why="restart"), "lists the windows"),
        (lambda told: listed(told, 1, from_ms=T + 1900), "lists the windows"),
        (lambda told: listed(told, 1, to_ms=T + 1900), "lists the windows"),
        (lambda told: listed(told, 2, from_ms=T + 1900), "lists the windows"),
        (lambda told: asked(told), "a rebirth"),
        (lambda told: asked(told, 5.0, 9.0), "a rebirth"),
        (lambda told: told._replace(rebirths_burst=-3), "a rebirth"),
        (lambda told: flagged(told, 0, 5, 0), "a rebirth"),
        (lambda told: flagged(told, 3, 1, NBIRTH), "a rebirth"),
        (lambda told: flagged(told, 0, 1, NBIRTH), "a rebirth"),
    ],
)
def test_each_fault_is_found(change: Callable[[Told], Told], line: str) -> None:
    assert any(line in what for what in broken(change(told()))), broken(change(told()))


def test_what_a_node_objected_to_is_told() -> None:
    one = told()
    one.sent[0].faults.append("why")
    assert broken(one) == ["the nodes had nothing to object to"]
