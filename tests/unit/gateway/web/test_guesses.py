"""Wrong logins of an address."""

import pytest

from gateway.web.guesses import ADDRESSES_MAX, FAILURES_MAX, FAILURES_S, BusyError, Guesses


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guesses(clock: Clock) -> Guesses:
    return Guesses(clock)


def test_after_some_an_address_waits(guesses: Guesses, clock: Clock) -> None:
    for _ in range(FAILURES_MAX):
        guesses.check("10.0.0.5")
        guesses.wrong("10.0.0.5")
    with pytest.raises(BusyError) as busy:
        guesses.check("10.0.0.5")
    assert busy.value.wait_s == FAILURES_S + 1
    guesses.check("10.0.0.6")
    clock.now += FAILURES_S
    guesses.check("10.0.0.5")
    guesses.wrong("10.0.0.5")
    guesses.check("10.0.0.5")


def test_who_is_right_begins_anew(guesses: Guesses) -> None:
    for _ in range(3):
        for _ in range(FAILURES_MAX - 1):
            guesses.wrong("10.0.0.5")
        guesses.right("10.0.0.5")
    guesses.check("10.0.0.5")


def test_a_v6_host_is_its_network(guesses: Guesses) -> None:
    for number in range(FAILURES_MAX):
        guesses.wrong(f"2001:db8::{number + 1}")
    with pytest.raises(BusyError):
        guesses.check("2001:db8::ffff")
    guesses.check("2001:db8:0:1::1")
    guesses.check("no address")


def test_addresses_without_number_take_no_memory(guesses: Guesses) -> None:
    for _ in range(FAILURES_MAX):
        guesses.wrong("first")
    for number in range(ADDRESSES_MAX - 1):
        guesses.wrong(str(number))
    with pytest.raises(BusyError):
        guesses.check("first")
    guesses.wrong("one more")
    guesses.check("first")
    assert len(guesses._failures) == ADDRESSES_MAX
