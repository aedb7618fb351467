"""Runs one handler: deliveries wait their turn, workers take them, what comes out is settled."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from gateway.consumer.declaration import Registration
from gateway.consumer.decoding import decoder
from gateway.consumer.message import Delivery, Joint, Message
from gateway.consumer.outcome import ACK, DROP, LET_GO, RETRY, OnDecodeError, OnError, Outcome
from gateway.consumer.settling import TASKS_MAX, Settler
from gateway.consumer.stats import HandlerStats
from gateway.consumer.threads import Threads

QOS0_MAX: Final = 10_000
"""Deliveries of QoS 0 that wait for one handler; the broker sends them however slow it is."""

BATCH_S: Final = 0.02
"""A batch closes so long after its first delivery came."""

_log = logging.getLogger("forebay.consumer")

Item = Delivery | Joint


@final
class HandlerError(Exception):
    """A handler failed under ``on_error="stop"``; its message is unsettled. ``__cause__`` is what it raised."""


@final
class Handling:
    """``failed`` is called with the error that must end the consumer."""

    def __init__(
        self, registration: Registration, settler: Settler, stats: HandlerStats, count_name: str,
        failed: Callable[[HandlerError], None],
    ) -> None:  # fmt: skip
        self.name: str = registration.name
        self.stats: HandlerStats = stats
        self.settler: Settler = settler
        self.running: int = 0
        self._registration = registration
        self._count_name = count_name
        self._failed = failed
        self._decode = decoder(registration.decode)
        self._handler = registration.handler
        self._batch = registration.batch or 0
        self._threads = None if registration.is_async else Threads(registration.max_workers, self.name)
        self._queue: deque[Item] = deque()
        self._came: deque[float] = deque()  # when, for batches
        self._idle: list[asyncio.Future[None]] = []
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def waiting(self) -> int:
        """Deliveries that no worker has taken."""
        return len(self._queue)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        work = self._work_batches if self._batch else self._work
        self._workers = [loop.create_task(work()) for _ in range(self._registration.max_workers)]
        for worker in self._workers:
            worker.add_done_callback(self._ended)

    def _ended(self, worker: "asyncio.Task[None]") -> None:
        """Nobody would take what comes where a worker has died of what it does not expect."""
        error = None if worker.cancelled() else worker.exception()
        if error is not None:
            self._policy("stop", error, "what the handler did cannot be settled")

    def put(self, item: Item, qos: int) -> None:
        """One more delivery; when stopping it stays where it is."""
        self.stats.received += 1
        if self._stopping:
            return
        if qos == 0 and len(self._queue) >= QOS0_MAX:
            self._overflow()
            return
        self._queue.append(item)
        if self._batch:
            self._came.append(asyncio.get_running_loop().time())
            if len(self._queue) > 1 and len(self._queue) < self._batch:
                return
        if self._idle:
            self._wake()

    def _overflow(self) -> None:
        if self.stats.overflowed == 0:
            _log.warning("%s is too slow: deliveries of QoS 0 are let go", self.name, extra={"handler": self.name})
        self.stats.overflowed += 1

    def forget(self) -> None:
        """A session resumed on another connection: what waits of QoS 1 comes again, of QoS 2 it is still this."""
        kept = [(i, item) for i, item in enumerate(self._queue) if _delivery(item).qos != 1]
        came = list(self._came)
        self._queue = deque(item for _, item in kept)
        self._came = deque(came[i] for i, _ in kept) if self._batch else deque()

    def _wake(self) -> None:
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _wait(self, seconds: float | None = None) -> None:
        """Until something comes, or for so long."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, _release, waiter)
        self._idle.append(waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._idle:
                self._idle.remove(waiter)

    async def _work(self) -> None:
        while not self._stopping:
            if not self._queue:
                await self._wait()
                continue
            if len(self.settler.tasks) >= TASKS_MAX:
                await asyncio.wait(self.settler.tasks, return_when=asyncio.FIRST_COMPLETED)
                continue
            item = self._queue.popleft()
            message = self._message(item)
            if message is not None:
                outcome = await self._outcome(message, [item])
                if outcome is None:
                    outcome = ACK
                if isinstance(outcome, Outcome):
                    self.settler.settle(item, outcome)
                else:
                    self._wrong(outcome, [item])

    async def _work_batches(self) -> None:
        size = self._batch
        loop = asyncio.get_running_loop()
        while not self._stopping:
            queue, came = self._queue, self._came
            if not queue:
                await self._wait()
                continue
            if len(queue) < size:
                left_s = came[0] + BATCH_S - loop.time()
                if left_s > 0:
                    await self._wait(left_s)
                    continue
            if len(self.settler.tasks) >= TASKS_MAX:
                await asyncio.wait(self.settler.tasks, return_when=asyncio.FIRST_COMPLETED)
                continue
            items: list[Item] = []
            messages: list[Message[Any]] = []
            while queue and len(items) < size:
                item = queue.popleft()
                came.popleft()
                message = self._message(item)
                if message is not None:
                    items.append(item)
                    messages.append(message)
            if items:
                self._settle_batch(items, await self._outcome(messages, items))

    def _settle_batch(self, items: list[Item], outcome: object) -> None:
        settle = self.settler.settle
        if outcome is None or isinstance(outcome, Outcome):
            for item in items:
                settle(item, outcome or ACK)
            return
        if not isinstance(outcome, list | tuple):
            self._wrong(outcome, items)
            return
        if len(outcome) != len(items):
            _log.warning(
                "%s: %d outcomes for a batch of %d: %s",
                self.name,
                len(outcome),
                len(items),
                "the rest is retried" if len(outcome) < len(items) else "those too many are left out",
                extra={"handler": self.name},
            )
        for i, item in enumerate(items):
            one = outcome[i] if i < len(outcome) else RETRY
            if one is None or isinstance(one, Outcome):
                settle(item, one or ACK)
            else:
                self._wrong(one, [item])

    def _message(self, item: Item) -> Message[Any] | None:
        """None where the payload does not decode; what follows that is done then."""
        delivery = _delivery(item)
        payload: Any = delivery.payload
        if self._decode is not None:
            try:
                payload = self._decode(payload)
            except Exception as error:
                self.stats.decode_errors += 1
                _log.warning(
                    "%s: a payload on %s does not decode: %s",
                    self.name,
                    delivery.topic,
                    error,
                    extra={"handler": self.name, "topic": delivery.topic},
                )
                policy: OnDecodeError = self._registration.on_decode_error
                if policy == "dead_letter":
                    self.settler.undecoded(item)
                else:
                    self._follow(policy, error, [item], "a payload does not decode")
                return None
        return Message(payload, delivery, self._count_name)

    async def _outcome(self, argument: object, items: list[Item]) -> Any:
        """What the handler returned or raised of its own will; after a failure, what its policy says."""
        started = time.perf_counter()
        self.running += 1
        try:
            if self._threads is None:
                return await self._handler(argument)
            return await self._threads.call(self._handler, argument)
        except Outcome as outcome:
            return outcome
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                return LET_GO  # the handler's own
            self._settle_all(items, LET_GO)
            raise
        except Exception as error:
            self.stats.handler_errors += 1
            _log.error("%s failed", self.name, exc_info=error, extra={"handler": self.name})
            return self._policy(self._registration.on_error, error, "the handler failed")
        finally:
            self.running -= 1
            self.stats.handler_s += time.perf_counter() - started

    def _policy(self, policy: OnError | OnDecodeError, error: BaseException | None, what: str) -> Outcome:
        if isinstance(policy, Outcome):
            return policy
        if policy == "stop":
            failure = HandlerError(f"{self.name}: {what}: {error}")
            failure.__cause__ = error
            self._failed(failure)
            return LET_GO
        return RETRY if policy == "retry" else DROP

    def _follow(
        self, policy: OnError | OnDecodeError, error: BaseException | None, items: list[Item], what: str
    ) -> None:
        self._settle_all(items, self._policy(policy, error, what))

    def _settle_all(self, items: list[Item], outcome: Outcome) -> None:
        for item in items:
            self.settler.settle(item, outcome)

    def _wrong(self, said: object, items: list[Item]) -> None:
        """A handler that answers with something else is a handler that failed."""
        self.stats.handler_errors += 1
        error = TypeError(f"returned {said!r}, expected nothing, ack(), drop(), retry() or retry_after(d)")
        _log.error("%s: %s", self.name, error, extra={"handler": self.name})
        self._follow(self._registration.on_error, error, items, "the handler failed")

    # The end

    def stop_taking(self) -> None:
        """Workers end with what they have in hand; what waits stays unacknowledged and holds back no answer."""
        self._stopping = True
        for item in self._queue:
            item.leave()
        self._queue.clear()
        self._came.clear()
        while self._idle:
            self._wake()

    async def finish(self, timeout_s: float | None) -> bool:
        """Wait for handlers; after ``timeout_s`` they are cancelled and what they had is let go. False then."""
        if not self._workers:
            return True
        _, late = await asyncio.wait(self._workers, timeout=timeout_s)
        for worker in late:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self._threads is not None:
            self._threads.close()
        return not late


def _delivery(item: Item) -> Delivery:
    return item.delivery if isinstance(item, Joint) else item


def _release(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
