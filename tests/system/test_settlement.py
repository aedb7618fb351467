"""Settlement on MQTT, row by row and arrow by arrow, over connections whose bytes are read.

Against Forebay, which delays copies itself, and against mosquitto, which does not. The two differences from the
settlement that RustStream documents stand in docs/consumer.md: a copy is safe before its original is acknowledged, and
a copy that waits is on disk.
"""

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import pytest

from gateway.consumer.app import (
    Consumer,
    DeclarationError,
    Message,
    MqttFilter,
    MqttTopic,
    Outcome,
    ack,
    drop,
    let_go,
    retry,
    retry_after,
)
from gateway.consumer.source import Source
from tests import wire_format as mqtt
from tests.harness import REPO, Broker, Mosquitto, Server
from tests.recorder import RETRY_COUNT, Recorder
from tests.waiting import TIMEOUT_S, until
from tests.wire import Wire
from tests.wire_format import Props


@pytest.fixture(scope="module", params=["forebay", "mosquitto"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp(request.param) / "data"
    if request.param == "mosquitto" and shutil.which("mosquitto") is None:
        pytest.skip("mosquitto is not installed")
    with Broker(place) if request.param == "forebay" else Mosquitto(place, {"persistence": True}) as started:
        yield started


@final
class Case:
    """A consumer behind a recorder. ``says`` gives the outcome of the n-th delivery of a test's topic."""

    def __init__(self, broker: Server, recorder: Recorder, path: Path, name: str) -> None:
        self.broker, self.recorder, self.name = broker, recorder, name
        self.topic = f"{name}/t"
        self.got: list[Message[Any]] = []
        self.says: list[Outcome | None] = []
        self.journal = path / "journal"
        self.app = self.consumer()

    def consumer(self, **said: Any) -> Consumer:
        self.app = Consumer(
            f"mqtt://127.0.0.1:{self.recorder.port}", client_id=self.name, journal=self.journal,
            shutdown_timeout=5, **said,
        )  # fmt: skip
        return self.app

    def subscribe(self, source: Source | None = None, **declared: Any) -> None:
        self.app.subscribe(source or MqttTopic(self.topic), **declared)(self.handler)

    async def handler(self, given: Any) -> Any:
        if not isinstance(given, list):
            return self.answer(given)
        return [self.answer(message) for message in given]

    def answer(self, message: Message[Any]) -> Outcome | None:
        self.got.append(message)
        return self.says.pop(0) if self.says else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.ensure_future(self.app.run(signals=False))
        try:
            await until(lambda: running.done() or self.app.stats.connected)
            yield
        finally:
            self.app.stop()
            await asyncio.wait_for(running, TIMEOUT_S)

    def publish(self, topic: str = "", payload: bytes = b"x", qos: int = 1, props: Props = ()) -> None:
        with Wire.connect(self.broker.port, version=5) as wire:
            wire.publish_done(topic or self.topic, payload, qos, props=props) if qos else wire.publish(
                topic or self.topic, payload, props=props
            )
            wire.disconnect()

    async def settled(self, count: int = 1) -> None:
        """So many deliveries came, and all that follows them is over."""
        await until(lambda: len(self.got) >= count)
        await until(lambda: not self.app.stats.copies)
        with Wire.connect(self.broker.port) as wire:
            wire.ping()
        await asyncio.sleep(0.05)  # what must not be sent has its chance

    async def passed(self, *names: str, lines: list[str]) -> None:
        """Of these messages just that has passed; its end may still be under way."""
        await until(lambda: len(self.recorder.of(*names)) >= len(lines))
        assert self.recorder.of(*names) == lines


@pytest.fixture
async def case(broker: Server, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    async with Recorder(broker.port) as recorder:
        yield Case(broker, recorder, tmp_path, re.sub(r"\W", "_", request.node.name))


def delays(case: Case) -> bool:
    return isinstance(case.broker, Broker)


def copied(topic: str, count: int | None) -> list[str]:
    """A copy, of QoS 1 whatever its original had, and the broker's acknowledgement of it."""
    return [f"out PUBLISH {topic}" + (f" #{count}" if count is not None else ""), "in PUBACK"]


def delivered(topic: str, count: int | None = None) -> str:
    return f"in PUBLISH {topic}" + (f" #{count}" if count is not None else "")


def answered(qos: int) -> list[str]:
    """The acknowledgement of a delivery; at QoS 2 to the end of the handshake."""
    return [[], ["out PUBACK"], ["out PUBREC", "in PUBREL", "out PUBCOMP"]][qos]


DIFFERENCES: Final = {
    # test_retry_under_a_cap_is_a_copy_now, test_retry_after_is_a_copy_after_d and test_at_the_cap... see the order
    "a copy is published": "before the original is acknowledged, and the broker has acknowledged it",
    # test_a_copy_that_waits_outlives_the_consumer
    "a copy waits for its delay": (
        "on disk: with the broker ([`$delayed`](delayed.md), where its CONNACK offers that), else in the journal"
    ),
}


# The table: each outcome on a QoS 1 or 2 delivery, what it sends and what follows; and on one of QoS 0


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("outcome", [ack(), drop(), None], ids=["ack", "drop", "nothing"])
async def test_ack_and_drop_acknowledge_and_it_is_finished(
    case: Case, qos: int, outcome: Outcome | None, caplog: pytest.LogCaptureFixture
) -> None:
    case.subscribe(qos=qos)
    case.says = [outcome]
    async with case.running():
        case.publish(qos=qos)
        await case.settled()
        await case.passed("d1", lines=[delivered(case.topic), *answered(qos)])
    if qos == 0:
        assert errors(caplog) == ["a QoS 0 delivery has nothing to acknowledge"]
        assert case.app.stats.handlers["handler"].unsupported == 1
    async with case.running():  # the session resumes, and nothing comes again
        await case.settled()
    assert len(case.got) == 1
    assert "c1" not in case.recorder.packets


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_retry_with_nothing_declared_sends_nothing_and_it_comes_back_on_resume(
    case: Case, qos: int, caplog: pytest.LogCaptureFixture
) -> None:
    case.subscribe(qos=qos)
    case.says = [retry()]
    async with case.running():
        case.publish(qos=qos)
        await case.settled()
        await case.passed("d1", lines=[delivered(case.topic)])
        assert case.app.stats.unsettled == (1 if qos else 0)
        assert "MQTT sends nothing again on a live connection" in errors(caplog)[0]
    async with case.running():
        await case.settled(2 if qos else 1)
        assert len(case.got) == (2 if qos else 1)  # of QoS 0 it is lost
        if qos:
            await case.passed("d2", lines=[delivered(case.topic) + " DUP", *answered(qos)])


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_retry_under_a_cap_is_a_copy_now(case: Case, qos: int) -> None:
    case.subscribe(qos=qos, max_attempts=3)
    case.says = [retry()]
    async with case.running():
        case.publish(qos=qos)
        await case.settled(2)
        sent = copied(case.topic, 1)
        await until(lambda: len(case.recorder.of("d1", "c1")) >= 1 + len(sent) + len(answered(qos)))
        first = [
            line for line in case.recorder.of("d1", "c1") if line in [delivered(case.topic), *sent, *answered(qos)]
        ]
        assert first == [delivered(case.topic), *sent, *answered(qos)]
        await case.passed("d2", lines=[delivered(case.topic, 1), *answered(min(qos, 1))])
        assert [message.attempt for message in case.got] == [1, 2]


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_retry_after_is_a_copy_after_d(case: Case, qos: int) -> None:
    """Difference: the copy is with the broker, or on our disk, before the original is acknowledged."""
    case.subscribe(qos=qos)
    case.says = [retry_after(1)]
    loop = asyncio.get_running_loop()
    async with case.running():
        began = loop.time()
        case.publish(qos=qos)
        await case.settled(2)
        assert loop.time() - began >= 1
        if delays(case):
            sent = copied(f"$delayed/1/{case.topic}", 1)
            await case.passed("d1", "c1", lines=[delivered(case.topic), *sent, *answered(qos)])
            assert not case.journal.exists()
        else:
            await case.passed("d1", "c1", lines=[delivered(case.topic), *answered(qos), *copied(case.topic, 1)])
            assert case.journal.exists()
        await case.passed("d2", lines=[delivered(case.topic, 1), *answered(min(qos, 1))])


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_batch_let_go_sends_nothing_and_comes_back_on_resume(
    case: Case, qos: int, caplog: pytest.LogCaptureFixture
) -> None:
    case.subscribe(qos=qos, batch=2)
    case.says = [let_go(), let_go()]
    async with case.running():
        for payload in (b"a", b"b"):
            case.publish(payload=payload, qos=qos)
        await case.settled(2)
        await case.passed("d1", "d2", lines=[delivered(case.topic)] * 2)
        assert errors(caplog) == []
        assert case.app.stats.unsettled == (2 if qos else 0)
    async with case.running():
        await case.settled(4 if qos else 2)
        again = [message.payload for message in case.got[2:]]
        assert again == ([b"a", b"b"] if qos else [])


async def test_the_outcomes_of_a_batch_are_those_of_its_elements(case: Case) -> None:
    case.subscribe(batch=4, max_attempts=2, dead_letter=f"{case.name}/dead")
    case.says = [ack(), drop(), let_go(), retry()]
    async with case.running():
        for payload in (b"a", b"b", b"c", b"d"):
            case.publish(payload=payload)
        await case.settled(5)
        await case.passed("d1", lines=[delivered(case.topic), "out PUBACK"])
        await case.passed("d2", lines=[delivered(case.topic), "out PUBACK"])
        await case.passed("d3", lines=[delivered(case.topic)])
        await case.passed("d4", lines=[delivered(case.topic), "out PUBACK"])
        assert case.recorder.packets["c1"]["payload"] == b"d"


# The window


async def test_unsettled_deliveries_fill_the_window_until_the_session_resumes(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    case.consumer(receive_maximum=4)
    case.subscribe()
    case.says = [retry()] * 4
    async with case.running():
        for number in range(6):
            case.publish(payload=b"%d" % number)
        await case.settled(4)
        assert [message.payload for message in case.got] == [b"0", b"1", b"2", b"3"]
        assert (case.app.stats.unsettled, case.app.stats.slots, case.app.stats.receive_maximum) == (4, 4, 4)
        warned = [record.getMessage() for record in caplog.records if "Receive Maximum" in record.getMessage()]
        assert warned[0] == "3 of 4 slots of the Receive Maximum are held by unsettled deliveries"
        assert "nothing of QoS 1 and 2 comes" in warned[1]
        case.recorder.cut()  # a new connection resumes the session
        await case.settled(10)
        assert [message.payload for message in case.got[4:]] == [b"%d" % number for number in range(6)]


async def test_acknowledgements_leave_in_the_order_of_receipt(case: Case) -> None:
    """[MQTT-4.6.0-2]: a handler that takes its time holds those behind it; one left unsettled does not."""
    going = {b"slow": asyncio.Event()}

    async def handler(message: Message[bytes]) -> Outcome | None:
        case.got.append(message)
        if message.payload in going:
            await going[message.payload].wait()
        return retry() if message.payload == b"left" else None

    case.app.subscribe(case.topic, max_workers=4)(handler)
    async with case.running():
        for payload in (b"left", b"slow", b"fast", b"fast"):
            case.publish(payload=payload)
        await case.settled(4)
        assert [line for line in case.recorder.trace if line.startswith("out PUB")] == []
        going[b"slow"].set()
        await until(lambda: len(case.recorder.trace) >= 8)
        assert [line for line in case.recorder.trace if line.startswith("out PUB")] == [
            "out PUBACK d2", "out PUBACK d3", "out PUBACK d4",
        ]  # fmt: skip


# The diagram of retries, arrow by arrow


@pytest.mark.parametrize(
    ("said", "attempt"),
    [(None, 1), ("0", 1), ("1", 2), ("x", 1), ("-1", 1), ("", 1), ("18446744073709551616", 1)],
)
async def test_the_attempt_is_read_from_the_user_property(case: Case, said: str | None, attempt: int) -> None:
    case.subscribe(max_attempts=3)
    case.says = [retry()]
    props = [] if said is None else [(mqtt.USER_PROPERTY, (RETRY_COUNT, said))]
    async with case.running():
        case.publish(props=props)
        await case.settled(2)
        assert [message.attempt for message in case.got] == [attempt, attempt + 1]
        assert f"out PUBLISH {case.topic} #{attempt}" in case.recorder.of("c1")


async def test_the_property_may_have_another_name(case: Case) -> None:
    case.consumer(retry_count="x-tries")
    case.subscribe(max_attempts=3)
    case.says = [retry()]
    async with case.running():
        case.publish(props=[(mqtt.USER_PROPERTY, (RETRY_COUNT, "9")), (mqtt.USER_PROPERTY, ("x-tries", "1"))])
        await case.settled(2)
        assert [value for key, value in case.recorder.packets["c1"].props if key == mqtt.USER_PROPERTY] == [
            (RETRY_COUNT, "9"), ("x-tries", "2"),
        ]  # fmt: skip


FULL: Final = [
    (mqtt.PAYLOAD_FORMAT, 1), (mqtt.CONTENT_TYPE, "text/plain"), (mqtt.RESPONSE_TOPIC, "answers"),
    (mqtt.CORRELATION_DATA, b"\0\1"), (mqtt.USER_PROPERTY, ("a", "1")), (mqtt.USER_PROPERTY, ("a", "2")),
]  # fmt: skip


def forwarded(case: Case, name: str) -> list[tuple[int, Any]]:
    mine = (mqtt.SUBSCRIPTION_ID,)
    return sorted((pair for pair in case.recorder.packets[name].props if pair[0] not in mine), key=lambda pair: pair[0])


async def test_below_the_cap_a_topic_is_its_own_address(case: Case) -> None:
    case.subscribe(max_attempts=5)
    case.says = [retry(), retry_after(1)]
    async with case.running():
        case.publish(props=FULL)
        await case.settled(3)
        assert [message.attempt for message in case.got] == [1, 2, 3]
        assert {message.topic for message in case.got} == {case.topic}
        assert forwarded(case, "c1") == [*FULL, (mqtt.USER_PROPERTY, (RETRY_COUNT, "1"))]
        assert forwarded(case, "d3") == [*FULL, (mqtt.USER_PROPERTY, (RETRY_COUNT, "2"))]


async def test_a_shared_topic_too(case: Case) -> None:
    case.subscribe(shared="workers", max_attempts=3)
    case.says = [retry()]
    async with case.running():
        case.publish()
        await case.settled(2)
        assert case.recorder.of("c1")[0] == f"out PUBLISH {case.topic} #1"


async def test_a_filter_names_the_topic_of_its_copies(case: Case) -> None:
    case.subscribe(MqttFilter(f"{case.name}/+", retry_to=f"{case.name}-retry"), max_attempts=3)
    case.says = [retry(), retry()]
    async with case.running():
        case.publish()
        await case.settled(3)
        assert [message.topic for message in case.got] == [case.topic, f"{case.name}-retry", f"{case.name}-retry"]
        assert [message.attempt for message in case.got] == [1, 2, 3]


async def test_or_makes_it_for_each_delivery(case: Case) -> None:
    case.subscribe(
        MqttFilter(f"{case.name}/#", retry_to=lambda message: f"{case.name}/again/{message.payload.decode()}"),
        max_attempts=3,
    )
    case.says = [retry()]
    async with case.running():
        case.publish(payload=b"7")
        await case.settled(2)
        assert [message.topic for message in case.got] == [case.topic, f"{case.name}/again/7"]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("outcome", [retry(), retry_after(60)], ids=["retry", "retry_after"])
async def test_at_the_cap_it_goes_to_the_dead_letter_topic_unchanged(case: Case, qos: int, outcome: Outcome) -> None:
    dead = f"{case.name}-dead"
    case.subscribe(qos=qos, max_attempts=3, dead_letter=dead)
    case.says = [outcome]
    props = [*FULL, (mqtt.USER_PROPERTY, (RETRY_COUNT, "2"))]
    with Wire.connect(case.broker.port, version=5) as reader:
        reader.subscribe(dead, qos=1)
        async with case.running():
            case.publish(payload=b"\0body", qos=qos, props=props)
            await case.settled()
            await case.passed("d1", "c1", lines=[
                delivered(case.topic, 2), *copied(dead, 2), *answered(qos),
            ])  # fmt: skip
        packet = reader.take(1)[0]
        assert packet["payload"] == b"\0body"
        assert sorted(packet.props, key=lambda pair: pair[0]) == props


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_at_the_cap_without_a_dead_letter_it_is_acknowledged_and_let_go(
    case: Case, qos: int, caplog: pytest.LogCaptureFixture
) -> None:
    case.subscribe(qos=qos, max_attempts=2)
    case.says = [retry(), retry()]
    async with case.running():
        case.publish(qos=qos)
        await case.settled(2)
        await case.passed("d2", lines=[delivered(case.topic, 1), *answered(min(qos, 1))])
        assert "c2" not in case.recorder.packets
        assert any("had its last attempt" in record.getMessage() for record in caplog.records)


async def test_a_dead_letter_alone_takes_every_failure_at_once(case: Case) -> None:
    dead = f"{case.name}-dead"
    case.subscribe(dead_letter=dead)
    case.says = [retry(), retry_after(60)]
    async with case.running():
        for _ in range(2):
            case.publish()
        await case.settled(2)
        assert [case.recorder.of(name)[0] for name in ("c1", "c2")] == [f"out PUBLISH {dead}"] * 2


async def test_a_copy_reaches_every_subscription_whose_filter_matches(case: Case) -> None:
    case.subscribe(max_attempts=2)
    case.says = [retry()]
    with Wire.connect(case.broker.port, version=5) as reader:
        reader.subscribe(f"{case.name}/#", qos=1)
        async with case.running():
            case.publish()
            await case.settled(2)
        assert [dict(packet.props).get(mqtt.USER_PROPERTY) for packet in reader.take(2)] == [None, (RETRY_COUNT, "1")]


async def test_a_copy_that_waits_outlives_the_consumer(case: Case) -> None:
    """Difference: it is on the broker's disk or ours, not in the process."""
    case.subscribe()
    case.says = [retry_after(2)]
    async with case.running():
        case.publish()
        await case.settled(1)
    async with case.running():
        await case.settled(2)
        assert [message.attempt for message in case.got] == [1, 2]


# What does not start


async def started(case: Case, source: Source, declared: dict[str, Any]) -> None:
    case.subscribe(source, **declared)
    await case.app.run()


async def test_what_does_not_start(case: Case) -> None:
    name = case.name
    wrong: list[tuple[dict[str, Any], Source, dict[str, Any], str]] = [
        ({}, MqttFilter(f"{name}/#"), {"max_attempts": 3}, "retries need a topic"),
        ({}, MqttFilter(f"{name}/#"), {"dead_letter": f"{name}/dead"}, "would come straight back"),
        ({"version": "3.1.1"}, MqttTopic(name), {"max_attempts": 3}, "3.1.1 has none"),
    ]
    for said, source, declared, why in wrong:
        case.consumer(**said)
        with pytest.raises(DeclarationError, match=why):
            await started(case, source, declared)
    with pytest.raises(DeclarationError, match="a wildcard needs MqttFilter"):
        MqttTopic(f"{name}/+")
    assert case.recorder.connections == 0


# Overlapping filters


async def test_overlapping_filters_are_told_apart_by_their_identifiers(case: Case) -> None:
    """Whether the broker sends one message for both filters or one for each, every handler gets it once."""
    wide: list[str] = []

    async def everything(message: Message[bytes]) -> None:
        wide.append(message.topic)

    case.subscribe(max_attempts=2)
    case.app.subscribe(MqttFilter(f"{case.name}/#"))(everything)
    async with case.running():
        case.publish()
        case.publish(f"{case.name}/other")
        await until(lambda: len(wide) == 2)
        await case.settled(1)
        assert wide == [case.topic, f"{case.name}/other"]
        assert [message.topic for message in case.got] == [case.topic]
        await until(lambda: case.app.stats.slots == 0)


async def test_on_3_1_1_they_do_not_start(case: Case) -> None:
    case.consumer(version="3.1.1")
    case.subscribe()
    case.app.subscribe(MqttFilter(f"{case.name}/#"))(print)
    with pytest.raises(DeclarationError, match=r"overlap, and MQTT 3\.1\.1 has no subscription identifiers"):
        await asyncio.wait_for(case.app.run(), TIMEOUT_S)


async def test_3_1_1(broker: Server, tmp_path: Path) -> None:
    """Without user properties nothing is counted; retry_after and a dead letter alone need no count."""
    async with Recorder(broker.port, 4) as recorder:
        case = Case(broker, recorder, tmp_path, "old")
        case.consumer(version="3.1.1")
        case.subscribe()
        case.says = [retry_after(0.3), drop()]
        async with case.running():
            case.publish()
            await case.settled(2)
            await case.passed("d1", "c1", lines=[
                delivered(case.topic), "out PUBACK", f"out PUBLISH {case.topic}", "in PUBACK",
            ])  # fmt: skip
            await case.passed("d2", lines=[delivered(case.topic), "out PUBACK"])


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of AckErrors."""
    found = [record for record in caplog.records if "AckError" in record.getMessage()]
    assert all(record.__dict__["ack_error"] == "unsupported" for record in found)
    assert all(record.levelno >= logging.DEBUG for record in found)
    return [record.getMessage().partition("AckError unsupported: ")[2] for record in found]


def test_the_differences_are_documented() -> None:
    page = (REPO / "docs" / "consumer.md").read_text()
    section = page[page.index("## Two differences") :]
    rows = [
        line.strip("| ").split(" | ") for line in section[: section.index("\n## ")].splitlines() if line[:2] == "| "
    ]
    assert rows[0] == ["RustStream", "here"]
    assert {what: ours for what, _, ours in rows[1:]} == DIFFERENCES
