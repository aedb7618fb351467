"""What a client id is remembered for."""

from gateway.core import seen as module
from gateway.core.seen import CLIENTS_MAX, NAME_CHARS_MAX, NAMES_ALL, NAMES_MAX, NAMES_MIN, Seen, names_each, remember
from tests.core_rig import broker, connect, core_of


def test_connect_subscribe_publish_leave() -> None:
    b = broker()
    client = connect(b, "s", 5, clean=False, expiry=60, keep_alive=30)
    client.subscribe("t/#", qos=1)
    publisher = connect(b, "p", 4, clean=True)
    publisher.put("t/1", b"x", 1)
    seen = core_of(b).seen
    s, p = seen["s"], seen["p"]
    assert (s.version, s.clean, s.expiry_s, s.keep_alive_s, s.asked, s.topics) == (5, False, 60, 30, {"t/#": 1}, None)
    assert (p.version, p.clean, p.expiry_s, p.topics) == (4, True, -1, {"t/1": 2})
    assert s.left_at == 0
    b.advance(500)
    client.drop()
    assert s.left_at == b.now
    connect(b, "s", 5, clean=False, expiry=60)
    assert (s.left_at, s.connects, s.asked) == (0, 2, None), "what it asks for is that of this connection"


def test_each_qos_of_a_topic_after_a_change_of_subscriptions() -> None:
    b = broker()
    publisher = connect(b, "p", 4)
    publisher.put("t", b"x", 1)
    publisher.put("t", b"x", 0)
    assert core_of(b).seen["p"].topics == {"t": 2}, "a known route is not looked up again"
    connect(b, "s").subscribe("t", qos=1)
    publisher.put("t", b"x", 0)
    assert core_of(b).seen["p"].topics == {"t": 3}


def test_message_expiry_and_size() -> None:
    b = broker()
    publisher = connect(b, "p", 5)
    publisher.put("a", b"x" * 50, 1, message_expiry_interval=9)
    publisher.put("b", b"x", 1, message_expiry_interval=30)
    seen = core_of(b).seen["p"]
    assert seen.message_expiry_s == 9
    assert 50 < seen.largest < 80


def test_a_quarrel_is_a_take_over_soon_after_the_connect() -> None:
    b = broker()
    connect(b, "s")
    connect(b, "s")
    seen = core_of(b).seen["s"]
    assert (seen.quarrels, seen.rival != seen.peer) == (1, True)
    b.advance(61_000)
    connect(b, "s")
    assert seen.quarrels == 1, "a dead link that its client has left"


def test_silence_is_counted() -> None:
    b = broker()
    connect(b, "s", keep_alive=1)
    b.advance(3_000)
    assert core_of(b).seen["s"].silences == 1


def test_a_refused_filter_is_remembered_with_its_reason() -> None:
    b = broker(max_subscriptions=1)
    client = connect(b, "s")
    client.subscribe("a", qos=1)
    client.subscribe("b", qos=1)
    asked = core_of(b).seen["s"].asked
    assert asked is not None
    assert (asked["a"], asked["b"] >= 0x80) == (1, True)


def test_the_caps() -> None:
    known: dict[str, Seen] = {}
    for number in range(CLIENTS_MAX + 3):
        remember(known, str(number))
    assert len(known) == CLIENTS_MAX
    assert "2" not in known and "3" in known
    remember(known, "3")
    remember(known, "new")
    assert "3" in known and "4" not in known, "who came last is kept longest"
    b = broker()
    publisher = connect(b, "p", 4)
    for number in range(NAMES_MAX + 1):
        publisher.put(f"t/{number}", b"", 0)
    seen = core_of(b).seen["p"]
    assert seen.topics is not None
    assert (len(seen.topics), seen.topics_more) == (NAMES_MAX, True)
    assert module.QUARREL_MS == 60_000


def test_names_that_are_remembered_are_bounded_whoever_makes_them_up() -> None:
    b = broker()
    client = connect(b, "s", 4, clean=True)
    for number in range(NAMES_MAX + 1):
        client.subscribe(f"f/{number}")
    seen = core_of(b).seen["s"]
    assert seen.asked is not None
    assert (len(seen.asked), seen.asked_more) == (NAMES_MAX, True)
    client.subscribe("f/0", qos=1)
    assert seen.asked["f/0"] == 1, "what is known is kept up to date"
    other = connect(b, "long", 4, clean=True)
    other.subscribe("x" * (NAME_CHARS_MAX + 1))
    other.put("y" * (NAME_CHARS_MAX + 1), b"", 0)
    long = core_of(b).seen["long"]
    assert (long.asked, long.asked_more, long.topics, long.topics_more) == ({}, True, {}, True)


def test_many_clients_share_what_is_remembered() -> None:
    few = {str(number): Seen("") for number in range(10)}
    many = {str(number): Seen("") for number in range(CLIENTS_MAX)}
    assert (names_each({}), names_each(few)) == (NAMES_MAX, NAMES_MAX)
    assert names_each(many) == NAMES_MIN
    assert names_each({str(n): Seen("") for n in range(1000)}) == NAMES_ALL // 1000
