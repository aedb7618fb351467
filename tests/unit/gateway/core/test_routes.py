"""Where a topic leads: overlaps merged, and remembered until a subscription changes."""

import pytest

from gateway.core.limits import Limits
from gateway.core.model import Backlog, Client, Session
from gateway.core.routes import CACHED_TOPIC_BYTES_MAX, CLIENT_CACHE_MAX, build, resolve, route_of
from gateway.core.state import Core
from gateway.core.topics import Subscription
from gateway.mqtt.errors import PacketError
from tests.core_rig import broker, connect, core_of, fill


def core_with(*subs: Subscription) -> Core:
    core = Core(Limits(), 0, 1)
    for sub in subs:
        if sub.sid not in core.by_sid:
            core.by_sid[sub.sid] = Session(sub.sid, str(sub.sid))
        core.trie.add(sub)
    return core


def test_overlapping_subscriptions_are_one_target() -> None:
    core = core_with(Subscription(1, "a/#", 1, True, False, 0, 7), Subscription(1, "a/b", 2, False, True, 0, 9))
    (t,) = build(core, b"a/b", "a/b").targets
    assert (t.qos, t.no_local, t.retain_as_published, sorted(t.identifiers or [])) == (2, False, True, [7, 9])
    assert not t.plain


def test_no_local_only_when_every_subscription_asks_for_it() -> None:
    core = core_with(Subscription(1, "a/#", 1, True, False, 0, 0), Subscription(1, "a/b", 1, True, False, 0, 0))
    assert build(core, b"a/b", "a/b").no_local


@pytest.mark.parametrize(
    ("qos", "raised", "store0", "kept"),
    [(1, False, False, True), (0, False, False, False), (0, True, False, True), (0, False, True, True)],
)
def test_what_is_kept_on_disk_for_a_durable_session(qos: int, raised: bool, store0: bool, kept: bool) -> None:
    core = core_with(Subscription(1, "a", qos, False, False, 0, 0))
    core.by_sid[1].backlog = Backlog(1, 0)
    core.limits.upgrade_qos, core.limits.mqueue_store_qos0_persistent = raised, store0
    route = build(core, b"a", "a")
    assert bool(route.durable) is kept
    assert bool(route.key) is kept


def test_a_route_holds_until_a_subscription_changes() -> None:
    core = core_with(Subscription(1, "a", 1, False, False, 0, 0))
    c, other = Client(None, "", 100, 0), Client(None, "", 100, 0)
    route = resolve(core, c, b"a")
    assert resolve(core, other, b"a") is route
    assert route_of(core, "a") is route
    core.trie.add(Subscription(1, "b", 1, False, False, 0, 0))
    assert resolve(core, c, b"a") is not route


def test_a_client_remembers_so_many_routes_and_no_more() -> None:
    core = core_with()
    c = Client(None, "", 100, 0)
    for n in range(CLIENT_CACHE_MAX + 10):
        resolve(core, c, str(n).encode())
    assert len(c.routes) <= CLIENT_CACHE_MAX


@pytest.mark.parametrize("topic", [b"a/#", b"a/+", b"\xff", b"a\x00"])
def test_bad_topics_are_refused_once_and_for_all(topic: bytes) -> None:
    core = core_with()
    for _ in range(2):
        with pytest.raises(PacketError):
            resolve(core, Client(None, "", 100, 0), topic)


def test_too_many_levels() -> None:
    core = core_with()
    core.limits.max_topic_levels = 3
    resolve(core, Client(None, "", 100, 0), b"a/b/c")
    with pytest.raises(PacketError):
        resolve(core, Client(None, "", 100, 0), b"a/b/c/d")
    resolve(core, Client(None, "", 100, 0), b"$delayed/5/a/b/c")
    with pytest.raises(PacketError):
        resolve(core, Client(None, "", 100, 0), b"$delayed/5/a/b/c/d")


def test_a_group_that_becomes_durable_is_seen_by_known_routes() -> None:
    b = broker()
    connect(b, "memory", clean=True, expiry=0).subscribe("$share/g/t", qos=1)
    fill(b, "t", 1)
    assert not route_of(core_of(b), "t").durable
    connect(b, "durable").subscribe("$share/g/t", qos=1)
    assert route_of(core_of(b), "t").durable


def test_a_long_topic_is_not_remembered() -> None:
    core = core_with(Subscription(1, "#", 1, False, False, 0, 0))
    c = Client(None, "", 100, 0)
    for size in (CACHED_TOPIC_BYTES_MAX, CACHED_TOPIC_BYTES_MAX + 1):
        assert len(resolve(core, c, b"x" * size).targets) == 1
    assert [len(topic) for topic in core.routes] == [CACHED_TOPIC_BYTES_MAX]
    assert [len(topic) for topic in c.routes] == [CACHED_TOPIC_BYTES_MAX]
