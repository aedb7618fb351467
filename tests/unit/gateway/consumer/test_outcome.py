"""Outcomes."""

from datetime import timedelta

import pytest

from gateway.consumer.outcome import Kind, Outcome, ack, drop, let_go, retry, retry_after


@pytest.mark.parametrize(
    ("made", "kind"),
    [(ack(), Kind.ACK), (drop(), Kind.DROP), (retry(), Kind.RETRY), (let_go(), Kind.LET_GO)],
)
def test_each_function_makes_its_kind(made: Outcome, kind: Kind) -> None:
    assert made.kind is kind
    assert str(made) == kind.value


def test_an_outcome_can_be_raised() -> None:
    with pytest.raises(Outcome) as raised:
        raise drop()
    assert raised.value.kind is Kind.DROP


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(minutes=1.5)])
def test_a_delay_is_seconds_or_a_timedelta(delay: float | timedelta) -> None:
    assert retry_after(delay).delay_s == 90
    assert str(retry_after(delay)) == "retry_after(90 s)"


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_a_delay_that_is_none_is_refused(delay: float | timedelta) -> None:
    with pytest.raises(ValueError, match="expected 0 seconds or more"):
        retry_after(delay)
