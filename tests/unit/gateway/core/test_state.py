"""Timers, and what makes a commit due."""

from gateway.core.limits import Limits
from gateway.core.message import PendingAck
from gateway.core.model import Session
from gateway.core.state import OWED_MAX, SESSION_END, Commit, Core
from gateway.mqtt.packets import PUBACK
from tests.core_rig import broker, connect, core_of, session_of


def core() -> Core:
    return Core(Limits(), 1000, 1)


def test_timers_of_what_has_ended_do_not_pile_up() -> None:
    c = core()
    s = Session(7, "s")
    c.by_sid[7] = s
    for n in range(10_000):
        s.deadline = 5000 + n
        c.timer(s.deadline, SESSION_END, 7)  # put off again and again
        c.timer(9000, SESSION_END, 1000 + n)  # of a session that is gone
    assert len(c.timers) <= 200
    assert (14_999, SESSION_END, 7) in c.timers


def test_a_client_that_comes_and_goes_leaves_no_timers() -> None:
    b = broker()
    for n in range(300):
        b.now += 1
        connect(b, f"c{n % 3}", clean=True).drop()
    assert len(core_of(b).timers) <= 64 + 3


def test_the_earliest_wake_counts() -> None:
    c = core()
    c.wake(50)
    c.wake(70)
    assert c.wake_at == 50
    c.wake(20)
    assert c.wake_at == 20


def test_the_driver_is_told_only_what_comes_before_its_next_look() -> None:
    b = broker()
    c = core_of(b)
    due = b.router.on_tick(b.now)
    c.wake(due)
    assert b.router.wake_at() == 0
    c.wake(due - 5)
    assert b.router.wake_at() == due - 5
    c.wake(due - 5)
    c.wake(due - 1)
    assert b.router.wake_at() == 0
    c.wake(due - 6)
    assert b.router.wake_at() == due - 6


def test_a_commit_with_only_what_is_done_is_idle() -> None:
    from gateway.core.model import Client

    commit = Commit(1)
    a = PendingAck(Client(None, "", 100, 0), PUBACK, 1)
    commit.acks.append(a)
    assert not commit.idle()
    a.done = True
    assert commit.idle()


def test_the_row_of_a_stored_will_is_written_only_when_there_is_one() -> None:
    c = core()
    c.will_row("a", None)
    assert not c.commit.wills
    c.will_row("a", b"w")
    c.will_row("a", None)
    assert c.commit.wills == {"a": None}
    assert not c.stored_wills


def test_who_has_too_many_answers_waiting_for_the_disk_is_read_no_further() -> None:
    """A flood of PUBRELs of unknown ids while a commit is under way; afterwards it goes on, and all are answered."""
    b = broker()
    client = connect(b, "s")
    publisher = connect(b, "p", clean=True, expiry=0)
    client.subscribe("t", qos=1)
    b.hold()
    publisher.publish("t", b"x", 1)
    client.send(b"".join(client.wire.ack("PUBREL", pid) for pid in range(1, 9_001)))
    served = session_of(b, "s").client
    assert served is not None
    assert (bool(served.blocked), served.owed <= OWED_MAX + 1) == (True, True)
    b.release()
    assert bool(served.blocked) is False
    answers = [got for got in client.drain() if got.type == "PUBCOMP"]
    assert [got.pid for got in answers] == list(range(1, 9_001))
    assert served.owed == 0
