"""The broker in memory."""

import pytest

from gateway.consumer.app import (
    Consumer,
    DeclarationError,
    HandlerError,
    Message,
    MqttFilter,
    Outcome,
    ack,
    retry,
    retry_after,
)
from gateway.consumer.testing import TestConsumer


async def test_a_retry_comes_back_until_the_dead_letter() -> None:
    app = Consumer("mqtt://nowhere", client_id="c")
    attempts: list[int] = []

    @app.subscribe("t", max_attempts=3, dead_letter="dead", decode="json")
    async def handler(message: Message[int]) -> Outcome:
        attempts.append(message.attempt)
        return retry() if message.value else ack()

    async with TestConsumer(app) as test:
        await test.publish("t", b"1")
        assert attempts == [1, 2, 3]
        assert [message.topic for message in test.published] == ["t", "t", "dead"]
        assert test.answers == ["ack", "ack", "ack"]
        await test.publish("t", b"0")
        await test.publish("t", b"x")
        assert [message.payload for message in test.published[2:]] == [b"1", b"x"]
        assert test.stats.handlers["handler"].dead_lettered == 2


async def test_time_passes_when_the_test_says_so() -> None:
    app = Consumer("mqtt://nowhere", client_id="c")
    seen: list[tuple[str, int]] = []

    @app.subscribe(MqttFilter("press/#", retry_to="press-retry"), qos=2)
    async def handler(message: Message[bytes]) -> Outcome | None:
        seen.append((message.topic, message.qos))
        return retry_after(60) if message.attempt == 1 else None

    async with TestConsumer(app) as test:
        await test.publish("press/7", qos=2)
        assert test.published[0].topic == "$delayed/60/press-retry"
        await test.advance(59)
        assert len(seen) == 1
        await test.advance(1)
        assert seen == [("press/7", 2), ("press-retry", 1)]


async def test_what_stays_unacknowledged() -> None:
    app = Consumer("mqtt://nowhere", client_id="c", receive_maximum=4)

    @app.subscribe("t", qos=1)
    async def handler(message: Message[bytes]) -> Outcome:
        return retry()

    async with TestConsumer(app) as test:
        for _ in range(3):
            await test.publish("t")
        await test.publish("t", qos=0)
        assert test.answers == ["left", "left", "left", ""]
        assert (test.stats.unsettled, test.stats.slots, test.stats.receive_maximum) == (3, 3, 4)


async def test_a_failure_is_raised_at_the_end() -> None:
    app = Consumer("mqtt://nowhere", client_id="c")

    @app.subscribe("t")
    async def handler(message: Message[bytes]) -> None:
        raise KeyError("k")

    with pytest.raises(HandlerError, match="handler failed: 'k'"):
        async with TestConsumer(app) as test:
            await test.publish("t")


async def test_what_does_not_start_does_not_start_here_either() -> None:
    with pytest.raises(DeclarationError, match="nothing is subscribed to"):
        TestConsumer(Consumer("mqtt://nowhere", client_id="c"))
    app = Consumer("mqtt://nowhere", client_id="c", version="3.1.1")
    app.subscribe(MqttFilter("a/#"))(print)
    app.subscribe("a/b")(print)
    with pytest.raises(DeclarationError, match="overlap"):
        await TestConsumer(app).__aenter__()
