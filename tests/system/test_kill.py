"""kill -9 at random moments under load: what was acknowledged is delivered, in order, and at QoS 2 exactly once.

FOREBAY_KILL_ROUNDS sets the number of kills (3; a full run takes 30), FOREBAY_SEED what is random.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.drivers import KINDS, Driver, missing
from tests.system.verdict import Published, faults
from tests.system.verdict import missing as not_yet
from tests.wire import Wire

ROUNDS = int(os.environ.get("FOREBAY_KILL_ROUNDS", "3"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
APPLICATIONS: Final = {"client_type": "sub-*=application;max_bytes=100MiB;drain_rate=5000"}
RATE = float(os.environ.get("FOREBAY_KILL_RATE", "80"))  # messages per second and publisher


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as started:
        yield started


def hammer(broker: Broker, chance: random.Random) -> None:
    """The kills: at any moment, also while the broker is still starting."""
    for turn in range(ROUNDS):
        time.sleep(chance.uniform(0.2, 1.5))
        broker.kill9()
        time.sleep(chance.choice([0, 0, 0.3]))
        broker.start(wait=turn % 5 != 4)
    if not broker.running():
        broker.start()
    broker.wait_ready()


def start_publishers(start: Callable[[str, str, str, int], Driver], kinds: Sequence[str]) -> list[Driver]:
    publishers = [start("pub", kind, f"k/{kind}/{qos}", qos) for kind in kinds for qos in (1, 2)]
    for publisher in publishers:
        publisher.wait("an acknowledgement", publisher.has_started, 60)
    return publishers


def accounts_of(publishers: Sequence[Driver]) -> list[Published]:
    """Every publisher has got everything acknowledged."""
    for publisher in publishers:
        publisher.wait_done()
        assert not publisher.refused, f"{publisher.name}: {publisher.refused[:5]}"
    accounts = [Published(one.name, one.qos, one.submitted, one.acknowledged) for one in publishers]
    for account in accounts:
        left = set(account.submitted) - set(account.acknowledged)
        assert not left, f"{account.name}: {sorted(left)} not acknowledged"
    return accounts


def wait_for_all(accounts: Sequence[Published], got: Callable[[], list[tuple[str, int]]]) -> None:
    """Until everything acknowledged has come, or clearly does not; and what comes twice has come by then, too."""
    end = time.monotonic() + 60
    while any(not_yet(account, got()) for account in accounts) and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(0.5)


def seen_by(subscriber: Driver) -> list[tuple[str, int]]:
    """A client that does not drop repeats itself may get a message first with DUP."""
    known = set(subscriber.received)
    return list(subscriber.received) + [pair for pair in dict.fromkeys(subscriber.repeated) if pair not in known]


def came_back(subscriber: Driver) -> list[str]:
    if not subscriber.present:
        return []
    found = []
    if subscriber.present[0] or not all(subscriber.present[1:]):
        found.append(f"{subscriber.name}: session present was {subscriber.present}")
    if len(subscriber.present) < 2:
        found.append(f"{subscriber.name} did not come back")
    return found


@pytest.mark.timeout(400 + 20 * ROUNDS)
@pytest.mark.parametrize("path", ["device", "application"])
def test_real_clients_on_both_sides(tmp_path: Path, path: str) -> None:
    """Each subscriber gets everything, on either path; applications read a log that is trimmed, paced and kept, too."""
    kinds = KINDS if path == "device" else KINDS[:2]
    for kind in kinds:
        assert not (why := missing(kind)), f"{kind}: {why}"
    print("seed", SEED)
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path / "data", APPLICATIONS if path == "application" else {}))

        def start(mode: str, kind: str, topic: str, qos: int) -> Driver:
            return stack.enter_context(closing(Driver(mode, kind, broker.port, topic, qos, tmp_path, RATE)))

        subscribers = [start("sub", kind, "k/#", 2) for kind in kinds]
        for subscriber in subscribers:
            subscriber.wait_line("READY")
        publishers = start_publishers(start, kinds)
        hammer(broker, random.Random(SEED))
        accounts = accounts_of(publishers)
        found = []
        for subscriber in subscribers:
            wait_for_all(accounts, lambda one=subscriber: [*one.received, *one.repeated])  # type: ignore[misc]
            found += [f"{subscriber.name} from {line}" for one in accounts for line in faults(one, seen_by(subscriber))]
            found += came_back(subscriber)
        assert not found, "\n".join([f"seed {SEED}", *found, broker.log()[-3000:]])
        print({account.name: len(account.acknowledged) for account in accounts})


@pytest.mark.timeout(400 + 20 * ROUNDS)
@pytest.mark.parametrize("strategy", ["round_robin", "hash_topic"])
def test_a_shared_group_loses_nothing(tmp_path: Path, strategy: str) -> None:
    """Its members together get everything, QoS 2 exactly once; a member that comes later takes part."""
    kinds = KINDS[:2]
    print("seed", SEED)
    with ExitStack() as stack:
        settings = {**APPLICATIONS, "mqtt.shared_subscription_strategy": strategy}
        broker = stack.enter_context(Broker(tmp_path / "data", settings))

        def start(mode: str, kind: str, topic: str, qos: int) -> Driver:
            return stack.enter_context(closing(Driver(mode, kind, broker.port, topic, qos, tmp_path, RATE)))

        members = [start("sub", kinds[0], "$share/g/k/#", 2)]
        members[0].wait_line("READY")
        publishers = start_publishers(start, kinds)
        members.append(start("sub", kinds[1], "$share/g/k/#", 2))
        members[1].wait_line("READY")
        hammer(broker, random.Random(SEED))
        accounts = accounts_of(publishers)

        def got() -> list[tuple[str, int]]:
            return [pair for member in members for pair in (*member.received, *member.repeated)]

        wait_for_all(accounts, got)
        together = [pair for member in members for pair in seen_by(member)]
        found = [line for one in accounts for line in faults(one, together) if "out of order" not in line]
        for member in members:
            found += came_back(member)
            if not member.received:
                found.append(f"{member.name} got nothing")
        assert not found, "\n".join([f"seed {SEED}", *found, broker.log()[-3000:]])


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("late", ["first", "after deliveries"])
def test_acknowledging_deliveries_of_before_the_crash(broker: Broker, version: int, qos: int, late: str) -> None:
    """Packet ids of before a crash settle nothing but what they were given for."""
    props = [(mqtt.SESSION_EXPIRY, 3600)] if version == 5 else []

    def back(present: int) -> Wire:
        return Wire.connect(broker.port, "s", version, clean=False, props=props, present=present)

    subscriber = back(0)
    subscriber.subscribe("late", qos=qos)
    with Wire.connect(broker.port, "p") as publisher:
        for number in range(60):
            publisher.publish_done("late", b"%d" % number, qos=qos)
    before = [subscriber.expect(mqtt.PUBLISH) for _ in range(15)]
    for packet in before[:5]:
        subscriber.settle(packet)
    before += [packet for packet in subscriber.quiet(0.2) if packet.type == mqtt.PUBLISH]
    broker.kill9()
    subscriber.close()
    broker.start()

    with Wire.connect(broker.port, "p") as publisher:
        for number in range(60, 90):
            publisher.publish_done("late", b"%d" % number, qos=qos)
    subscriber = back(1)
    taken = {packet["payload"] for packet in before}
    if late == "after deliveries":
        subscriber.wait_for(mqtt.PUBLISH)
    for packet in before[5:]:
        subscriber.ack(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, packet["pid"])
    subscriber.ping()
    subscriber.close()

    subscriber = back(1)
    again: list[bytes] = []
    released: set[int] = set()
    while len(taken | set(again)) < 90:
        packet = subscriber.recv_packet()
        if packet.type == mqtt.PUBLISH:
            again.append(packet["payload"])
            subscriber.ack(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, packet["pid"])
        else:
            assert packet.type == mqtt.PUBREL, packet
            released.add(packet["pid"])
            subscriber.pubcomp(packet["pid"])
    for packet in subscriber.quiet(0.3):
        assert packet.type != mqtt.PUBLISH, packet
    fresh = [number for number in again if number not in taken]
    assert fresh == sorted(set(fresh), key=int), b" ".join(fresh)
    if qos == 2:
        assert not {packet["payload"] for packet in before} & set(again), "delivered again after its PUBREC"
    subscriber.close()
