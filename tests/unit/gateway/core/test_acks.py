"""What a receiver answers, and in which state it may."""

import pytest

from gateway.core.model import RELEASED, RELEASING
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of


def test_pubrel_leaves_when_the_pubrec_is_on_disk() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=2)
    fill(b, "t", 1, qos=2)
    pid = client.expect("PUBLISH").pid
    b.hold()
    client.ack("PUBREC", pid)
    client.ack("PUBREC", pid)
    client.expect_nothing()
    assert session_of(b, "s").inflight[pid].state == RELEASING
    b.release()
    client.expect("PUBREL", pid=pid)
    assert session_of(b, "s").inflight[pid].state == RELEASED
    client.ack("PUBCOMP", pid)
    assert not session_of(b, "s").inflight


def test_a_memory_member_of_a_durable_group_waits_for_the_disk_too() -> None:
    """Else its message would go to another member after a crash."""
    b = broker()
    connect(b, "durable").subscribe("$share/g/t", qos=2)
    connect(b, "durable").drop()
    client = connect(b, "memory", clean=True, expiry=0)
    client.subscribe("$share/g/t", qos=2)
    fill(b, "t", 1, qos=2)
    pid = client.expect("PUBLISH").pid
    b.hold()
    client.ack("PUBREC", pid)
    client.expect_nothing()
    b.release()
    client.expect("PUBREL", pid=pid)


@pytest.mark.parametrize("kind", ["PUBACK", "PUBREC", "PUBCOMP"])
def test_an_unknown_id_settles_nothing(kind: str) -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=2)
    fill(b, "t", 1, qos=2)
    pid = client.expect("PUBLISH").pid
    client.ack(kind, pid + 1)
    if kind == "PUBREC":
        client.expect("PUBREL", pid=pid + 1, reason=0x92)
    client.expect_nothing()
    assert backlog_of(b, "s").count == 1


@pytest.mark.parametrize(("qos", "kind"), [(1, "PUBREC"), (1, "PUBCOMP"), (2, "PUBACK")])
def test_the_answer_of_the_other_qos_is_a_protocol_error(qos: int, kind: str) -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=qos)
    fill(b, "t", 1, qos=qos)
    client.ack(kind, client.expect("PUBLISH").pid)
    client.expect_closed(0x82)


def test_a_refusal_ends_a_qos_2_message() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=2)
    fill(b, "t", 1, qos=2)
    client.ack("PUBREC", client.expect("PUBLISH").pid, 0x80)
    client.expect_nothing()
    s = session_of(b, "s")
    assert (s.inflight, s.used, int(s.settled), backlog_of(b, "s").count) == ({}, 0, 1, 0)


def test_a_refusal_of_what_is_still_to_be_sent_again_after_a_crash() -> None:
    b = broker()
    client = connect(b, "s", receive_maximum=2)
    client.subscribe("t", qos=2)
    fill(b, "t", 2, qos=2)
    pids = [got.pid for got in client.drain()]
    b.crash()
    client = connect(b, "s", receive_maximum=1)
    assert client.expect("PUBLISH").pid == pids[0]
    client.ack("PUBREC", pids[1], 0x80)
    client.ack("PUBREC", pids[0])
    client.expect("PUBREL", pid=pids[0])
    client.ack("PUBCOMP", pids[0])
    client.expect_nothing()
    assert backlog_of(b, "s").count == 0
    assert not core_of(b).ledger.dropped(session_of(b, "s").sid)
