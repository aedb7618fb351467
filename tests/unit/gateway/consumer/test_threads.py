"""Threads for plain functions."""

import subprocess
import sys
import threading

import pytest

from gateway.consumer.threads import Threads
from tests.waiting import until


async def test_what_a_function_returns_or_raises_comes_back() -> None:
    threads = Threads(1, "t")
    assert await threads.call(lambda said: said * 2, 21) == 42
    assert await threads.call(lambda said: threading.current_thread().name, None) == "t_1"
    with pytest.raises(ZeroDivisionError):
        await threads.call(lambda said: 1 / said, 0)
    with pytest.raises(RuntimeError, match="the handler raised StopIteration"):
        await threads.call(next, iter(()))
    threads.close()
    await until(lambda: "t_1" not in [one.name for one in threading.enumerate()])


async def test_there_are_no_more_than_were_asked_for() -> None:
    threads = Threads(2, "t")
    names = {await threads.call(lambda said: threading.current_thread().name, None) for _ in range(10)}
    assert names <= {"t_1", "t_2"}
    threads.close()


PROGRAM = """
import asyncio, time
from gateway.consumer.threads import Threads

async def main():
    threads = Threads(1, "t")
    try:
        await asyncio.wait_for(threads.call(time.sleep, 1e6), 0.1)
    except TimeoutError:
        threads.close()
        print("over", flush=True)

asyncio.run(main())
"""


def test_one_that_never_returns_does_not_keep_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "over\n"
