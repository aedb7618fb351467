"""How long a session lives, and what its end leaves."""

import pytest

from gateway.core.lifecycle import expiry_of
from gateway.core.limits import NEVER, Limits
from gateway.core.state import Core
from gateway.mqtt.packets import Connect, Properties
from tests.core_rig import broker, connect, core_of, fill, session_of


def asked(version: int, clean: bool, seconds: int | None) -> Connect:
    properties = None
    if seconds is not None:
        properties = Properties()
        properties.session_expiry_interval = seconds
    return Connect(version, "plc-7", clean, 0, properties=properties)


@pytest.mark.parametrize(
    ("connect", "most", "rule", "expected"),
    [
        (asked(5, False, 100), NEVER, [], (100, 0)),
        (asked(5, False, None), NEVER, [], (0, 0)),
        (asked(5, False, NEVER), 3600, [], (3600, 0)),
        (asked(4, True, None), NEVER, [], (0, 0)),
        (asked(4, False, None), NEVER, [], (7200, 0)),
        (asked(5, False, 0), NEVER, [("plc-*", 600)], (600, 600)),
        (asked(5, True, 0), NEVER, [("plc-*", 600)], (0, 0)),
        (asked(5, False, 900), NEVER, [("plc-*", 600)], (900, 600)),
        (asked(5, False, 0), NEVER, [("x*", 1), ("plc-?", 60), ("*", 600)], (60, 60)),
    ],
)
def test_the_expiry_that_is_granted(
    connect: Connect, most: int, rule: list[tuple[str, int]], expected: tuple[int, int]
) -> None:
    core = Core(Limits(), 0, 1)
    core.limits.session_expiry_s = 7200
    core.limits.max_session_expiry_s = most
    core.limits.min_session_expiry = rule
    assert expiry_of(core, connect) == expected


@pytest.mark.parametrize(("granted", "wanted", "left"), [(0, 0, 0), (0, 50, 50), (600, 0, 600), (600, 700, 700)])
def test_a_disconnect_changes_the_expiry_but_not_below_the_rule(granted: int, wanted: int, left: int) -> None:
    b = broker(min_session_expiry=[("s", granted)] if granted else [])
    connect(b, "s", expiry=100).disconnect(expiry=wanted)
    if left == 0:
        assert "s" not in core_of(b).sessions
    else:
        assert session_of(b, "s").deadline == b.now + left * 1000


def test_a_session_ends_at_its_deadline_also_over_a_crash() -> None:
    b = broker()
    client = connect(b, "s", expiry=10)
    client.subscribe("t", qos=1)
    client.drop()
    fill(b, "t", 2)
    b.advance(5_000)
    b.crash()
    b.advance(4_000)
    assert "s" in core_of(b).sessions
    b.advance(2_000)
    assert "s" not in core_of(b).sessions
    b.advance(2_000)
    assert not b.store.segments
    assert not b.store.subscriptions
    assert core_of(b).ledger.drops(0) == {"session_end": 2}


def test_the_end_of_a_memory_session_counts_each_message_once() -> None:
    """Not what was received to the PUBREC already, and not what goes to another member of a group."""
    b = broker()
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=2)
    client.subscribe("t", qos=2)
    fill(b, "t", 4, qos=2)
    first, _ = client.expect("PUBLISH"), client.expect("PUBLISH")
    client.ack("PUBREC", first.pid)
    client.drop()
    assert core_of(b).ledger.drops(0) == {"session_end": 3}


def test_a_takeover_moves_what_was_in_flight() -> None:
    b = broker()
    old = connect(b, "s", receive_maximum=5)
    old.subscribe("t", qos=1)
    fill(b, "t", 2)
    pids = [old.expect("PUBLISH").pid for _ in range(2)]
    new = connect(b, "s", receive_maximum=1)
    old.expect_closed(0x8E)
    assert new.connack.session_present
    assert new.take(dup=True).pid == pids[0]
    assert new.take(dup=True).pid == pids[1]
    assert session_of(b, "s").used == 0


def test_assigned_ids_are_told_and_differ() -> None:
    b = broker()
    names = {connect(b, "", clean=True).connack.props["assigned_client_identifier"] for _ in range(20)}
    assert len(names) == 20


def test_two_clients_with_one_id_are_named_with_both_addresses() -> None:
    b = broker()
    for _ in range(60):
        connect(b, "twin")
    alarms = [line for line in b.router.take_alarms() if "twin" in line]
    assert alarms == [
        "two clients have the client id twin: 127.0.0.1:5 and 127.0.0.1:6 have ended each other's connection 5 times; "
        "give one of them another id",
        "two clients have the client id twin: 127.0.0.1:50 and 127.0.0.1:51 have ended each other's connection 50 "
        "times; give one of them another id",
    ]
    assert "twin: 127.0.0.1:6 takes over from 127.0.0.1:5" in b.router.take_log()
