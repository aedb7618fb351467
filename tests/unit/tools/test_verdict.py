"""The judge of the kill campaigns must not be blind."""

import pytest

from tests.system.verdict import Published, faults


def account(qos: int, acknowledged: list[int], submitted: dict[int, int] | None = None) -> Published:
    return Published("p", qos, submitted or dict.fromkeys(range(1, 6), 1), acknowledged)


@pytest.mark.parametrize(
    ("qos", "acknowledged", "received", "why"),
    [
        (1, [1, 2, 3], [1, 2, 3], ""),
        (1, [1, 2, 3], [1, 2, 1, 2, 3, 3], ""),
        (1, [1], [1, 2, 3], ""),
        (1, [1, 2, 3], [1, 3], "acknowledged and lost: [2]"),
        (1, [1, 2, 3], [1, 3, 2], "out of order: [1, 3, 2]"),
        (1, [1], [1, 9], "never sent: [9]"),
        (2, [1, 2], [2, 1], ""),
        (2, [1, 2], [1, 2, 2], "more than once: {2: 2}"),
        (2, [1, 2], [1], "acknowledged and lost: [2]"),
    ],
)
def test_faults(qos: int, acknowledged: list[int], received: list[int], why: str) -> None:
    others = [("other", 3)]
    found = faults(account(qos, acknowledged), others + [("p", number) for number in received] + others)
    assert [why in line for line in found] == ([True] if why else [])


def test_a_program_that_submits_twice_may_be_received_twice() -> None:
    assert not faults(account(2, [1], {1: 2}), [("p", 1), ("p", 1)])
    assert faults(account(2, [1], {1: 2}), [("p", 1), ("p", 1), ("p", 1)])
