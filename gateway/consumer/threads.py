"""Threads for handlers that are plain functions."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, final


@final
class _Call(NamedTuple):
    function: Callable[[Any], Any]
    argument: object
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"


@final
class Threads:
    """At most ``count`` of them. They are daemons, unlike those of a ThreadPoolExecutor: a handler that never returns
    must not keep the process from ending.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._started = 0

    async def call(self, function: Callable[[Any], Any], argument: object) -> Any:
        """What the function returns or raises. Who is cancelled leaves it to itself."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._calls.put(_Call(function, argument, loop, done))
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=self._run, name=f"{self._name}_{self._started}", daemon=True).start()
        return await done

    def close(self) -> None:
        """Each ends when it has nothing in hand."""
        for _ in range(self._started):
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            if call.done.cancelled():
                continue
            result: Any = None
            error: BaseException | None = None
            try:
                result = call.function(call.argument)
            except StopIteration as stop:  # no future takes one
                error = RuntimeError("the handler raised StopIteration")
                error.__cause__ = stop
            except BaseException as other:
                error = other
            try:
                call.loop.call_soon_threadsafe(_tell, call.done, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return


def _tell(done: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
