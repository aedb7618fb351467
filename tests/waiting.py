"""Wait for what nothing announces."""

import asyncio
from collections.abc import Callable
from typing import Final

TIMEOUT_S: Final = 60.0


async def until(true: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Until it is true; TimeoutError when it is not for so long."""
    async with asyncio.timeout(timeout_s):
        while not true():  # noqa: ASYNC110 (nothing else tells of it)
            await asyncio.sleep(0.005)
