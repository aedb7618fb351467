"""A paced drain, and how long it still takes."""

from gateway.core.limits import ClientRule
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker
from tests.station import Station


def rig(rate: int) -> MemoryBroker:
    b = broker(client_types=[ClientRule("app*", "", True)], app_drain_rate=rate, sys_interval_ms=0)
    client = connect(b, "app")
    client.subscribe("t", qos=1)
    client.drop()
    return b


def second(b: MemoryBroker, client: Station) -> list[int]:
    """What is taken in a second, acknowledged each 10 ms."""
    got: list[int] = []
    for _ in range(100):
        b.advance(10)
        got += [int(payload) for payload in client.take()]
    return got


def test_a_backlog_is_drained_at_its_rate_and_in_order() -> None:
    b = rig(20)
    fill(b, "t", 60)
    client = Station(b, "app")
    seconds = [second(b, client) for _ in range(4)]
    assert [number for one in seconds for number in one] == list(range(60))
    assert 18 <= len(seconds[0]) <= 24
    assert 18 <= len(seconds[1]) <= 22
    assert not core_of(b).apps.paced


def test_others_are_not_paced_and_what_comes_live_is_not_either() -> None:
    b = rig(2)
    fill(b, "t", 5)
    client, other = Station(b, "app"), Station(b, "other")
    other.subscribe("t")
    assert client.take() == [b"0"]
    fill(b, "t", 5, start=5)
    assert other.take() == [b"5", b"6", b"7", b"8", b"9"]
    rest: list[int] = []
    while len(rest) < 9:
        rest += second(b, client)
    assert rest == list(range(1, 10))
    assert backlog_of(b, "app").count == 0
    fill(b, "t", 5, start=10)
    assert client.take() == [b"10", b"11", b"12", b"13", b"14"]


def test_the_next_is_due_when_its_credit_is_there() -> None:
    b = rig(4)
    fill(b, "t", 3)
    client = Station(b, "app")
    assert client.take() == [b"0"]
    b.advance(229)  # a fiftieth of a second's worth was there already
    assert client.take() == []
    b.advance(1)
    assert client.take() == [b"1"]
    b.advance(249)
    assert client.take() == []
    b.advance(1)
    assert client.take() == [b"2"]


def test_a_reload_without_a_rate_lets_all_go() -> None:
    b = rig(1)
    fill(b, "t", 9)
    client = Station(b, "app")
    assert client.take() == [b"0"]
    b.limits.app_drain_rate = 0
    b.router.reload(b.limits, b.now)
    b.advance(1000)
    assert client.take() == [b"%d" % number for number in range(1, 9)]


def test_a_reader_that_stops_pauses_itself_and_resumes_without_a_publish() -> None:
    b = rig(0)
    fill(b, "t", 300)
    core_of(b).limits.out_high_bytes = 400
    client = Station(b, "app")
    client.link.stall()
    got = [int(payload) for payload in client.take()]
    b.pump()
    assert len(got) < 100
    other = Station(b, "other")
    other.subscribe("t")
    fill(b, "t", 1, start=300)
    assert other.take() == [b"300"]
    client.link.read_on()
    while more := client.take():
        got += [int(payload) for payload in more]
    assert got == list(range(301))


def test_the_time_that_is_left_follows_from_the_measured_rate() -> None:
    b = rig(50)
    fill(b, "t", 1000)
    row = b.router.session("app", b.now)
    assert row is not None
    assert (row["drained_s"], row["eta_s"]) == (None, None)  # nobody drains it
    client = Station(b, "app")
    for _ in range(5):
        second(b, client)
    row = b.router.session("app", b.now)
    assert row is not None
    left = backlog_of(b, "app").count
    assert 45 <= row["drained_s"] <= 55  # type: ignore[operator]
    assert left / 60 <= row["eta_s"] <= left / 40 + 1  # type: ignore[operator]
    drain = b.router.status(b.now)["drain"]
    assert drain == {"sessions": 1, "messages_s": row["drained_s"], "eta_s": row["eta_s"]}


def test_a_queue_that_grows_has_no_end_in_sight() -> None:
    b = rig(10)
    fill(b, "t", 100)
    client = Station(b, "app")
    for turn in range(4):
        fill(b, "t", 30, start=100 + 30 * turn)
        second(b, client)
    row = b.router.session("app", b.now)
    assert row is not None
    assert row["drained_s"] is not None
    assert row["eta_s"] is None
    drain = b.router.status(b.now)["drain"]
    assert isinstance(drain, dict)
    assert drain["eta_s"] is None


def test_who_is_gone_is_not_measured() -> None:
    b = rig(10)
    fill(b, "t", 100)
    client = Station(b, "app")
    b.advance(2000)
    assert list(core_of(b).apps.drains) == [session_of(b, "app")]
    client.drop()
    b.advance(2000)
    assert not core_of(b).apps.drains
