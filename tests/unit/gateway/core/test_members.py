"""Who of a shared group gets a message, by strategy."""

from collections import Counter

import pytest

from gateway.core.limits import HASH_TOPIC, LEAST_INFLIGHT, ROUND_ROBIN, STICKY
from tests.conformance.client import Client
from tests.core_rig import broker, connect, core_of, fill
from tests.memory import MemoryBroker

SHARE = "$share/g/t/#"


def rig(strategy: int, count: int, persistent: bool = True, **options: object) -> tuple[MemoryBroker, list[Client]]:
    b = broker(shared_strategy=strategy)
    made = []
    for number in range(count):
        name = f"m{number}"
        client = connect(b, name, **options) if persistent else connect(b, name, clean=True, expiry=0)  # type: ignore[arg-type]
        client.subscribe(SHARE, qos=1)
        made.append(client)
    return b, made


def publish(b: MemoryBroker, topics: list[str]) -> None:
    giver = connect(b, "giver", clean=True, expiry=0)
    for number, topic in enumerate(topics):
        giver.put(topic, str(number).encode(), 1)
    giver.disconnect()


def numbers(client: Client) -> list[int]:
    return [int(got.payload) for got in client.take_all()]


@pytest.mark.parametrize("persistent", [True, False])
def test_round_robin_takes_turns(persistent: bool) -> None:
    b, members = rig(ROUND_ROBIN, 3, persistent)
    publish(b, ["t/a"] * 9)
    assert [len(numbers(m)) for m in members] == [3, 3, 3]


def test_least_inflight_spares_the_slow_one() -> None:
    b, (slow, quick) = rig(LEAST_INFLIGHT, 2)
    got = 0
    for _ in range(20):
        publish(b, ["t/a"])
        got += len(numbers(quick))
    assert got >= 18
    assert len(slow.take_all()) == 20 - got


@pytest.mark.parametrize("persistent", [True, False])
def test_hash_topic_gives_a_topic_to_one_member(persistent: bool) -> None:
    b, members = rig(HASH_TOPIC, 3, persistent)
    topics = [f"t/{number % 20}" for number in range(100)]
    publish(b, topics)
    owner: dict[str, set[int]] = {}
    for index, member in enumerate(members):
        for number in numbers(member):
            owner.setdefault(topics[number], set()).add(index)
    assert len(owner) == 20
    assert all(len(who) == 1 for who in owner.values())
    assert len(Counter(next(iter(who)) for who in owner.values())) == 3


def test_hash_topic_passes_a_member_that_has_no_room_and_keeps_each_topic_in_order() -> None:
    b, (stuck, quick) = rig(HASH_TOPIC, 2, receive_maximum=2)
    topics = [f"t/{number % 8}" for number in range(80)]
    publish(b, topics)
    first = [int(stuck.expect("PUBLISH").payload) for _ in range(2)]
    got = numbers(quick)
    assert got == sorted(got)
    mine = {topics[number] for number in got}
    assert got == [number for number in range(80) if topics[number] in mine]
    assert len(mine) < 8
    for packet in list(core_of(b).sessions["m0"].inflight):
        stuck.ack("PUBACK", packet)
    rest = first + numbers(stuck)
    assert rest == [number for number in range(80) if topics[number] not in mine]


def test_hash_topic_reads_on_behind_what_a_stuck_member_is_to_get() -> None:
    b, members = rig(HASH_TOPIC, 2, receive_maximum=2)
    for member in members:
        member.drop()
    topics = [f"t/{number % 8}" for number in range(900)]
    publish(b, topics)
    _stuck, quick = (connect(b, f"m{number}", receive_maximum=2) for number in range(2))
    got = numbers(quick)
    mine = {topics[number] for number in got}
    assert len(mine) < 8
    assert got[-1] > 880


def test_sticky_stays_with_one_until_it_goes() -> None:
    b, (one, two) = rig(STICKY, 2)
    publish(b, ["t/a", "t/b", "t/c"])
    assert numbers(one) == [0, 1, 2]
    one.drop()
    publish(b, ["t/a", "t/b"])
    assert numbers(two) == [0, 1]
    connect(b, "m0")
    publish(b, ["t/a"])
    assert numbers(two) == [0]


def test_sticky_waits_for_the_one_that_is_full() -> None:
    b, (one, two) = rig(STICKY, 2, receive_maximum=2)
    publish(b, ["t/a"] * 5)
    two.expect_nothing()
    assert numbers(one) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("strategy", [HASH_TOPIC, STICKY])
@pytest.mark.parametrize("way", ["drop", "end", "unsubscribe", "reload"])
def test_what_waits_for_a_member_that_goes_is_for_another_at_once(strategy: int, way: str) -> None:
    """Without an acknowledgement or a message that comes."""
    b, (one, two) = rig(strategy, 2, receive_maximum=2)
    publish(b, [f"t/{number % 8}" for number in range(40)])
    early = numbers(two)
    stuck = [one.expect("PUBLISH") for _ in range(2)]
    assert len(early) < 38
    if way == "drop":
        one.drop()
    elif way == "end":
        one.disconnect(expiry=0)
    elif way == "unsubscribe":
        one.unsubscribe(SHARE)
    else:
        b.limits.shared_strategy = ROUND_ROBIN
        b.router.reload(b.limits, b.now)
        b.pump()
    ended = {int(got.payload) for got in stuck} if way != "end" else set()
    late = numbers(two)
    assert late == sorted(late)
    assert sorted(early + late) == [number for number in range(40) if number not in ended]


@pytest.mark.parametrize("strategy", [HASH_TOPIC, STICKY])
def test_so_when_the_session_that_ends_is_full_of_its_own(strategy: int) -> None:
    b, (one, two) = rig(strategy, 2, receive_maximum=2)
    one.subscribe("own", qos=1)
    fill(b, "own", 2)
    publish(b, [f"t/{number % 8}" for number in range(40)])
    early = numbers(two)
    assert len(early) < 40
    one.disconnect(expiry=0)
    assert sorted(early + numbers(two)) == list(range(40))


@pytest.mark.parametrize("strategy", [ROUND_ROBIN, LEAST_INFLIGHT, HASH_TOPIC, STICKY])
def test_the_cursor_of_the_group_outlives_a_crash_and_every_member(strategy: int) -> None:
    b, members = rig(strategy, 2, receive_maximum=3)
    publish(b, [f"t/{number % 5}" for number in range(30)])
    got = [number for member in members for number in numbers(member)][:30]
    assert sorted(got) == list(range(30))
    for member in members:
        member.drop()
    publish(b, [f"t/{number % 5}" for number in range(20)])
    b.advance(2000)
    b.crash()
    late = connect(b, "late", receive_maximum=3)
    late.subscribe(SHARE, qos=1)
    assert numbers(late) == list(range(20))
    b.advance(2000)
    assert not core_of(b).segments
