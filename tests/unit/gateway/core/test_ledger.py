from gateway.core import ledger
from gateway.core.ledger import Ledger


def test_drops_count_for_the_session_and_in_total() -> None:
    book = Ledger()
    book.drop(4, ledger.QUEUE_FULL)
    book.drop(4, ledger.QUEUE_FULL, 2)
    book.drop(4, ledger.EXPIRED)
    book.drop(5, ledger.EXPIRED)
    book.drop(0, ledger.ACL, 7)
    assert book.drops(4) == {"queue_full": 3, "expired": 1}
    assert book.drops(5) == {"expired": 1}
    assert book.drops(6) == {}
    assert book.drops(0) == {"queue_full": 3, "expired": 2, "acl": 7}
    assert (book.dropped(4), book.dropped(6), book.dropped(0)) == (4, 0, 12)


def test_what_is_handed_out_is_a_copy() -> None:
    book = Ledger()
    book.drop(4, ledger.DISK)
    book.drops(4).clear()
    book.drops(0).clear()
    book.snapshot().clear()
    assert book.dropped(4) == book.dropped(0) == book.snapshot()["dropped.disk"] == 1


def test_a_message_that_is_nowhere_shows() -> None:
    book = Ledger()
    book.drop(4, ledger.QUEUE_FULL, 3)
    assert book.unaccounted(4, matched=20, acknowledged=10, held=7) == 0
    assert book.unaccounted(4, matched=20, acknowledged=9, held=7) == 1
    assert book.unaccounted(4, matched=20, acknowledged=11, held=7) == -1


def test_changes_are_absolute_and_taken_once() -> None:
    book = Ledger()
    assert book.take_changes() == []
    book.received_qos1 += 2
    book.drop(4, ledger.EXPIRED, 2)
    assert sorted(book.take_changes()) == [
        (0, "dropped.expired", 2),
        (0, "received_qos1", 2),
        (4, "dropped.expired", 2),
    ]
    assert book.take_changes() == []
    book.received_qos1 += 1
    book.drop(4, ledger.EXPIRED)
    assert sorted(book.take_changes()) == [
        (0, "dropped.expired", 3),
        (0, "received_qos1", 3),
        (4, "dropped.expired", 3),
    ]


def test_drops_can_be_taken_alone() -> None:
    book = Ledger()
    book.bytes_sent += 9
    book.drop(0, ledger.CONGESTED)
    assert book.take_drops() == [(0, "dropped.congested", 1)]
    assert book.take_drops() == []
    assert book.take_changes() == [(0, "bytes_sent", 9)]


def test_forgetting_a_session_keeps_the_totals_and_stores_no_row_for_it() -> None:
    book = Ledger()
    book.drop(4, ledger.SESSION_END, 5)
    book.drop(5, ledger.SESSION_END)
    book.forget(4)
    book.forget(99)
    assert book.dropped(4) == 0
    assert book.dropped(0) == 6
    assert sorted(book.take_changes()) == [(0, "dropped.session_end", 6), (5, "dropped.session_end", 1)]


def test_counting_goes_on_after_a_restart() -> None:
    before = Ledger()
    before.puback_sent += 10
    before.drop(4, ledger.DISK, 3)
    rows = before.take_changes()
    after = Ledger()
    after.load([*rows, (0, "from_a_newer_version", 8), (4, "of_a_newer_session", 8)])
    assert after.take_changes() == []
    assert after.snapshot()["puback_sent"] == 10
    assert after.snapshot()["from_a_newer_version"] == 8
    assert after.drops(4) == {"disk": 3}
    after.puback_sent += 1
    after.drop(4, ledger.DISK)
    assert sorted(after.take_changes()) == [(0, "dropped.disk", 4), (0, "puback_sent", 11), (4, "dropped.disk", 4)]


def test_every_counter_is_in_the_snapshot() -> None:
    book = Ledger()
    names = [name for name in dir(book) if not name.startswith("_") and isinstance(getattr(book, name), int)]
    for value, name in enumerate(names, 1):
        setattr(book, name, value)
    assert book.snapshot() == {name: value for value, name in enumerate(names, 1)}
    assert len(names) == 28
