"""Pauses, and when they end."""

import asyncio
import random

import pytest
from tenacity import RetryCallState

from gateway.link import retrying
from gateway.link.retrying import for_a_time, until_closed
from gateway.link.terms import LostError, RefusedError

WAIT_S = 60.0


def pause(attempt: int) -> float:
    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = attempt
    return retrying._pause(state)


def test_pauses_between_attempts_grow_to_half_a_minute() -> None:
    random.seed(7)
    pauses = [pause(number) for number in range(1, 60)]
    assert 0.1 <= pauses[0] <= 0.125 and pauses[4] > 1
    assert all(0.1 <= one <= 30 for one in pauses)
    assert all(one > 20 for one in pauses[10:])
    assert len({pause(5) for _ in range(20)}) == 20, "not all that lost a broker come back at one moment"


async def test_for_a_time() -> None:
    errors: list[Exception] = [LostError("1"), LostError("2")]

    async def attempt() -> None:
        if errors:
            raise errors.pop(0)

    await for_a_time(attempt, WAIT_S)
    errors += [LostError("3"), LostError("4"), LostError("5")]
    with pytest.raises(LostError, match="4"):
        await for_a_time(attempt, 0.01)
    errors[:] = [RefusedError("no")]
    with pytest.raises(RefusedError):
        await for_a_time(attempt, WAIT_S)


async def test_until_closed() -> None:
    closing = asyncio.Event()
    happened: list[float] = []

    async def stay() -> None:
        happened.append(asyncio.get_running_loop().time())
        if len(happened) == 2:
            raise LostError("short")
        if len(happened) == 4:
            closing.set()

    async with asyncio.timeout(WAIT_S):
        await until_closed(stay, closing)
    assert len(happened) == 4
    assert happened[2] - happened[1] >= 0.1


async def test_a_close_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_PAUSE_MIN_S", 30.0)
    closing = asyncio.Event()

    async def stay() -> None:
        if closing.is_set():
            return
        asyncio.get_running_loop().call_soon(closing.set)
        raise LostError("no")

    async with asyncio.timeout(WAIT_S):
        await until_closed(stay, closing)


async def test_a_refusal_ends_it() -> None:
    async def stay() -> None:
        raise RefusedError("no", 0x87)

    with pytest.raises(RefusedError):
        await until_closed(stay, asyncio.Event())
