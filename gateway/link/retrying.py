"""Connecting again: with pauses of 100 ms to 30 s that grow, and not the same for all that lost the same broker."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_delay, stop_never

from gateway.link.terms import LostError

_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 30.0


async def for_a_time(attempt: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Try until one succeeds. Raises the last LostError when that takes longer, and what else an attempt raises."""
    async for trial in AsyncRetrying(
        wait=_pause, stop=stop_after_delay(seconds), retry=retry_if_exception_type(LostError), reraise=True
    ):
        with trial:
            await attempt()


async def until_closed(stay: Callable[[], Awaitable[None]], closing: asyncio.Event) -> None:
    """Call ``stay`` again and again: at once after it returned, after a pause when it raised LostError.

    Raises what else it raises.
    """

    async def sleep(seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await closing.wait()
        except TimeoutError:
            pass

    while not closing.is_set():
        async for trial in AsyncRetrying(
            wait=_pause, stop=stop_never, retry=retry_if_exception_type(LostError), sleep=sleep, reraise=True
        ):
            with trial:
                await stay()


def _pause(state: RetryCallState) -> float:
    """Before the next attempt, in seconds."""
    pause: float = _PAUSE_MIN_S * 2 ** min(state.attempt_number - 1, 16) * random.uniform(0.75, 1.25)
    return min(_PAUSE_MAX_S, max(_PAUSE_MIN_S, pause))
