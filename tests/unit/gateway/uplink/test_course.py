"""Which address is dialled when, and what a heartbeat that stays away leads to."""

from itertools import pairwise

import pytest

from gateway.uplink import course
from gateway.uplink.course import (
    BEAT,
    CONNECTED,
    DIAL,
    DIALLING,
    FAR,
    FORWARDING,
    GIVE_UP,
    HANDSHAKE_MS,
    LEAVE,
    NOTHING,
    PAUSED,
    REFUSED,
    RETURN,
    STALLED,
    STEADY_MS,
    WAITING,
    Course,
    pause_ms,
)

HOLD_OFF = 60_000
INTERVAL = 5_000


def begun(addresses: int = 1, heartbeat_ms: int = INTERVAL, now: int = 0) -> Course:
    """A course that has asked for its first dial."""
    made = Course(addresses, HOLD_OFF, heartbeat_ms, now)
    assert made.tick(now) == DIAL
    return made


def up(made: Course, now: int) -> None:
    """The dial that was asked for works."""
    made.switched(made.address, now)
    made.connected(now)


def down(made: Course, now: int, refused: bool = False) -> int:
    """The dial fails; the pause until the next, which is asked for then."""
    made.failed("no", now, 1.0, refused)
    due = made.due
    assert made.tick(due - 1) == NOTHING
    assert made.tick(due) == DIAL
    return due - now


@pytest.mark.parametrize(("rounds", "most"), [(0, 100), (1, 100), (2, 200), (5, 1600), (9, 25_600), (10, 30_000)])
def test_the_pause_doubles_from_100_ms_to_30_s_and_has_jitter(rounds: int, most: int) -> None:
    assert pause_ms(rounds, 1.0) == most
    assert pause_ms(rounds, 0.0) == most // 2
    assert pause_ms(10_000, 1.0) == 30_000


def test_one_address_is_dialled_again_and_again() -> None:
    made = begun()
    now, pauses = 0, []
    for _ in range(12):
        pause = down(made, now)
        now += pause
        pauses.append(pause)
    assert pauses == [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000]
    assert made.error == "no"


def test_the_next_addresses_come_quickly_and_each_round_waits_longer() -> None:
    made = begun(3)
    now, seen = 0, []
    for _ in range(7):
        seen.append(made.address)
        now += (pause := down(made, now))
        seen.append(pause)
    assert seen == [0, 100, 1, 100, 2, 100, 0, 100, 1, 100, 2, 200, 0, 100]


def test_a_refusal_of_all_is_slowed_and_one_alone_is_not() -> None:
    made = begun(2)
    now = down(made, 0, refused=True)
    assert made.address == 1
    made.failed("no", now, 1.0, True)
    assert made.state == REFUSED
    assert made.due == now + course.REFUSED_MS
    assert made.tick(made.due) == DIAL
    assert made.state == DIALLING
    made.failed("gone", made.due, 1.0)
    assert made.state == WAITING


def test_a_connection_that_does_not_last_is_a_failure_and_one_that_did_is_dialled_at_once() -> None:
    made = begun()
    now, pauses = 0, []
    for lasts in (1000, 1000, 1000, STEADY_MS, 1000):
        up(made, now)
        made.lost("gone", now + lasts, 1.0)
        assert made.state == WAITING
        pauses.append(made.due - now - lasts)
        now = made.due
        assert made.tick(now) == DIAL
    assert pauses == [100, 200, 400, 100, 100]


def test_no_connack_in_time() -> None:
    made = begun()
    made.switched(0, 500)
    assert made.due == 500 + HANDSHAKE_MS
    assert made.tick(made.due) == GIVE_UP
    made.failed("no answer", made.due, 1.0)
    assert made.state == WAITING


def test_a_heartbeat_makes_connected_forwarding() -> None:
    made = begun()
    up(made, 100)
    assert (made.state, made.linked) == (CONNECTED, True)
    assert made.tick(100) == BEAT
    made.beat_back(made.beat - 1, 110)
    assert made.state == CONNECTED, "another heartbeat proves nothing"
    made.beat_back(made.beat, 120)
    assert (made.state, made.since) == (FORWARDING, 120)
    assert made.due == 100 + INTERVAL
    assert made.tick(made.due) == BEAT
    assert made.beat == 2


def test_without_heartbeats_nothing_is_due() -> None:
    made = begun(heartbeat_ms=0)
    up(made, 100)
    assert (made.state, made.due) == (CONNECTED, FAR)


@pytest.mark.parametrize("stops_after", [0, 1, 3])
def test_who_acknowledges_and_does_not_forward_is_found_within_two_intervals(stops_after: int) -> None:
    made = begun()
    up(made, 0)
    now = last_proof = 0
    for _ in range(stops_after):
        assert made.tick(now) == BEAT
        made.beat_back(made.beat, now + 1)
        last_proof = now + 1
        now = made.due
    assert made.tick(now) == BEAT  # the one that is not sent back
    made.tick(made.due)
    assert made.state == STALLED
    assert made.since - last_proof <= 2 * INTERVAL
    assert made.error.startswith("heartbeat")


def test_with_one_address_a_stall_stays_until_a_heartbeat_comes_back() -> None:
    made = begun()
    up(made, 0)
    for beat in range(1, 30):
        assert made.tick(made.due) == BEAT
        assert made.beat == beat
    assert (made.state, made.linked) == (STALLED, True)
    made.beat_back(29, made.due)
    assert (made.state, made.error) == (FORWARDING, "")


def test_what_else_comes_in_shows_that_it_forwards() -> None:
    made = begun()
    up(made, 0)
    assert made.tick(0, received=10) == BEAT
    assert made.tick(INTERVAL, received=11) == BEAT
    assert made.state == CONNECTED
    assert made.tick(2 * INTERVAL, received=11) == BEAT
    assert made.state == STALLED


def test_a_stall_leaves_for_the_next_address() -> None:
    made = begun(2)
    up(made, 0)
    assert made.tick(0) == BEAT
    assert made.tick(INTERVAL) == LEAVE
    assert (made.address, made.state, made.due) == (1, WAITING, INTERVAL)
    assert made.tick(INTERVAL) == DIAL
    up(made, INTERVAL)
    assert made.tick(INTERVAL) == BEAT
    made.beat_back(made.beat, INTERVAL + 1)
    assert made.state == FORWARDING


def test_when_all_stall_the_round_goes_on_at_the_pace_of_the_hold_off() -> None:
    made = begun(2)
    now, left = 0, []
    up(made, 0)
    while now < 10 * HOLD_OFF:
        action = made.tick(now)
        if action == LEAVE:
            left.append(now)
        elif action in (DIAL, RETURN):
            made.address = 0 if action == RETURN else made.address
            up(made, now)
        now = made.due
    assert left[0] == INTERVAL
    assert len(left) >= 4
    assert all(later - earlier >= HOLD_OFF for earlier, later in pairwise(left[1:]))


def test_the_first_address_is_tried_again_after_the_hold_off_and_less_often_each_time() -> None:
    made = begun(2, heartbeat_ms=0)
    assert down(made, 0) == 100
    up(made, 100)
    now, tries = 100, []
    for _ in range(7):
        now = made.due
        assert made.tick(now) == RETURN
        tries.append(now)
        assert made.tick(now) == NOTHING
    gaps = [later - earlier for earlier, later in zip([100, *tries], tries, strict=False)]
    assert gaps == [HOLD_OFF * n for n in (1, 2, 4, 8, 16, 16, 16)]
    made.switched(0, now)
    made.connected(now)
    assert (made.state, made.address, made.due) == (CONNECTED, 0, FAR)
    made.lost("gone", now + HOLD_OFF, 1.0)
    now = made.due
    assert made.tick(now) == DIAL
    down(made, now)
    up(made, now)
    assert made.due == now + HOLD_OFF, "it has been good for long: the hold-off begins anew"


def test_a_heartbeat_that_is_not_allowed_says_nothing() -> None:
    made = begun(2)
    up(made, 0)
    assert made.tick(0) == BEAT
    made.beat_refused("not allowed")
    assert (made.state, made.error, made.due) == (CONNECTED, "not allowed", FAR)


def test_paused_it_dials_no_more_until_it_is_resumed() -> None:
    made = begun()
    made.pause(5)
    made.failed("cancelled", 6, 1.0)
    made.lost("gone", 6, 1.0)
    assert (made.state, made.due, made.linked) == (PAUSED, FAR, False)
    assert made.tick(10**9) == NOTHING
    made.resume(20)
    assert made.tick(20) == DIAL
    made.resume(21)
    assert made.state == DIALLING
