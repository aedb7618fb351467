"""The consumers of a stream: one for each application, made anew by whoever opens it, and what is read from one.

A consumer is called APPLICATION_NUMBER: the highest number is the one that counts, and others are deleted. It begins
behind the highest message up to which one before it had all acknowledged.
"""

import asyncio
import contextlib
import hashlib
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, final

import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gateway.store.engine import CursorTaken, EngineDown, EngineError, EngineRefused, Entry, Record
from gateway.store.subjects import cover

PENDING_MAX: Final = 10_000  # of one consumer, given and not acknowledged
ACK_WAIT_S: Final = 3_600  # what is on its way does not come again by itself: that would be out of order
BEAT_S: Final = 1.0  # a pull that the server still knows says so
PULL_S: Final = 30.0
SILENCE_S: Final = 3.0
READ_BYTES: Final = 1_048_576  # of one pull, and at least one message

NO_CONSUMER: Final = 10014


@final
class Consumers:
    """``request(subject, payload, timeout_s)`` asks the server. Raises EngineDown."""

    def __init__(
        self, stream: str, identity: str, timeout_s: float, request: Callable[[str, bytes, float], Awaitable[bytes]]
    ) -> None:
        self.stream = stream
        self.connection: Connection | None = None
        self.timeout_s = timeout_s
        self.request = request
        self.identity = identity  # of this gateway: the names that it makes end with it
        self.epoch = ""  # when the stream was made: positions of another one mean nothing
        self.rested: dict[str, tuple[str, set[int]]] = {}  # application -> epoch, what it has settled ahead of others
        self._cursors: dict[NatsCursor, Subscription | None] = {}

    def lost(self) -> None:
        """The connection is gone."""
        self.connection = None
        for cursor in self._cursors:
            cursor.wake()

    async def enter(self, cursor: "NatsCursor") -> str:
        """A subject at which its messages may come: a new one with each call, so that those of before are not heard."""
        await self.leave(cursor)
        connection = self.connection
        if connection is None:
            raise EngineDown("not connected")
        inbox = connection.new_inbox()
        self._cursors[cursor] = None
        try:
            self._cursors[cursor] = await connection.subscribe(inbox, cb=cursor.heard, pending_bytes_limit=0)
        except (OSError, nats.errors.Error) as e:
            raise EngineDown(str(e)) from e
        return inbox

    async def leave(self, cursor: "NatsCursor") -> None:
        heard = self._cursors.pop(cursor, None)
        if heard is not None:
            with contextlib.suppress(OSError, nats.errors.Error):
                await heard.unsubscribe()

    async def api(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        data = await self.request(f"$JS.API.CONSUMER.{what}", json.dumps(body).encode(), self.timeout_s)
        answer: dict[str, Any] = json.loads(data)
        return answer

    async def names(self) -> list[str]:
        found: list[str] = []
        while True:
            answer = await self.api(f"NAMES.{self.stream}", {"offset": len(found)})
            if "error" in answer:
                raise EngineDown(str(answer["error"].get("description")))
            page = answer.get("consumers") or []
            found += page
            if not page or len(found) >= answer["total"]:
                return found

    async def of(self, application: str) -> list[str]:
        """Those of one application; the last is the one that counts."""
        start = base(application) + "_"
        return sorted(
            one for one in await self.names() if one.startswith(start) and _NUMBER.fullmatch(one[len(start) :])
        )

    async def info(self, name: str) -> dict[str, Any] | None:
        answer = await self.api(f"INFO.{self.stream}.{name}", {})
        error = answer.get("error")
        if error is None:
            return answer
        if error.get("err_code") == NO_CONSUMER:
            return None
        raise EngineDown(str(error.get("description")))

    async def floors(self) -> list[int]:
        """Up to where each consumer of the stream, whoever made it, has had all of it acknowledged.

        Raises EngineDown when one of them goes meanwhile: another may have taken its place.
        """
        floors: list[int] = []
        for name in await self.names():
            info = await self.info(name)
            if info is None:
                raise EngineDown(f"consumer {name} is gone")
            floors.append(floor(info))
        return floors

    async def make(self, name: str, application: str, filters: Sequence[str], begin: int, earliest: bool) -> None:
        """``begin``: the position at which it begins; 0 = where a new one does."""
        config: dict[str, Any] = {
            "durable_name": name,
            "name": name,
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_S * 1_000_000_000,
            "max_deliver": -1,
            "max_ack_pending": PENDING_MAX,
            "replay_policy": "instant",
            "filter_subjects": cover(self.stream, filters),
            "metadata": {"application": application, "filters": json.dumps(list(filters))},
        }
        if begin:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": begin}
        else:
            config["deliver_policy"] = "all" if earliest else "new"
        await self._create(name, config, "create")

    async def change(self, name: str, filters: Sequence[str]) -> None:
        """Raises EngineDown, too, when it is gone."""
        info = await self.info(name)
        if info is None:
            raise EngineDown(f"consumer {name} is gone")
        config = info["config"]
        config["filter_subjects"] = cover(self.stream, filters)
        config.pop("filter_subject", None)
        config.setdefault("metadata", {})["filters"] = json.dumps(list(filters))
        await self._create(name, config, "update")

    async def _create(self, name: str, config: dict[str, Any], action: str) -> None:
        body = {"stream_name": self.stream, "config": config, "action": action}
        answer = await self.api(f"CREATE.{self.stream}.{name}", body)
        if "error" in answer:
            error = answer["error"]
            kind = EngineDown if error.get("code") in (500, 503) else EngineRefused
            raise kind(f"consumer {name}: {error.get('description')}")

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            await self.api(f"DELETE.{self.stream}.{name}", {})

    def numbered(self, application: str, number: int) -> str:
        """Two gateways that make the same number at the same time make two names."""
        return f"{base(application)}_{number:08d}{self.identity}"

    async def declare(self, application: str, filters: Sequence[str], earliest: bool) -> None:
        if filters and not await self.of(application):
            await self.make(self.numbered(application, 1), application, filters, 0, earliest)

    async def forget(self, application: str, wherever: bool) -> None:
        self.rested.pop(application, None)
        found = await self.of(application)
        await self.delete([one for one in found if wherever or one.endswith(self.identity)])


_NUMBER: Final = re.compile(r"\d{8}[0-9a-f]{8}")
_SAFE: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


def base(application: str) -> str:
    """The part of the names of its consumers that is its own."""
    if _SAFE.fullmatch(application):
        return application
    return "x_" + hashlib.sha256(application.encode()).hexdigest()[:40]


def floor(info: dict[str, Any]) -> int:
    """The position up to which all was acknowledged, or before which it began."""
    acked: int = info["ack_floor"]["stream_seq"]
    begun: int = info["config"].get("opt_start_seq", 0)
    return max(acked, begun - 1)


def filters_of(info: dict[str, Any]) -> list[str]:
    try:
        found = json.loads((info["config"].get("metadata") or {}).get("filters", "[]"))
    except ValueError:
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


@final
class NatsCursor:
    """The protocol ``store.engine.Cursor``."""

    def __init__(
        self,
        consumers: Consumers,
        application: str,
        filters: Sequence[str],
        earliest: bool,
        fresh: bool,
        record: Callable[[Msg], Record],
    ) -> None:
        self.before: Sequence[str] = ()
        self._consumers = consumers
        self._application = application
        self._filters = list(filters)
        self._earliest = earliest
        self._fresh = fresh
        self._record = record
        self._name = ""
        self._inbox = ""
        self._last = 0  # position of the last that was read
        self._handed: dict[int, str] = {}  # read and not settled: where to acknowledge it
        self._done: set[int] = set()  # settled, though one before it may not be
        self._epoch = ""
        self._acks: list[str] = []  # not sent yet
        self._given = 0  # the server's number of the last delivery of this consumer
        self._came: deque[Msg] = deque()
        self._left = 0  # of the pull under way
        self._heard = 0.0
        self._event = asyncio.Event()
        self._trouble: EngineError | None = None

    # opening

    async def resume(self) -> None:
        """A consumer of our own, behind what is settled."""
        consumers = self._consumers
        await self._drop()
        self._recall()
        names = await consumers.of(self._application)
        if self._name and names and names[-1] > self._name and not names[-1].endswith(consumers.identity):
            raise self._taken()
        begin = 0
        filters = self._filters
        if not self._fresh:
            infos = [info for name in names if (info := await consumers.info(name)) is not None]
            if infos:
                begin = max(floor(info) for info in infos) + 1
                if not self._name:
                    self.before = filters_of(infos[-1])
                    filters = [*filters, *(one for one in self.before if one not in filters)]
            elif self._name:  # somebody has deleted it
                begin = min([*self._handed, *self._done, self._last + 1])
        number = int(names[-1][-16:-8]) + 1 if names else 1
        name = consumers.numbered(self._application, number)
        await consumers.make(name, self._application, filters, begin, self._earliest)
        self._name, self._fresh = name, False
        names = await consumers.of(self._application)
        await consumers.delete([one for one in names if one < name])
        if names and names[-1] > name:
            raise self._taken()
        self._given = 0
        self._trouble = None
        self._inbox = await consumers.enter(self)

    def _taken(self) -> CursorTaken:
        self._trouble = CursorTaken(f"{self._application} reads at another gateway")
        return self._trouble

    def _recall(self) -> None:
        """What is known of what it has settled, as long as the stream is the same."""
        consumers = self._consumers
        epoch, ahead = consumers.rested.pop(self._application, ("", set()))
        if not self._fresh and epoch == consumers.epoch:
            self._done |= ahead
        if self._epoch and self._epoch != consumers.epoch:
            self._last = 0
            self._handed.clear()
            self._done.clear()
        self._epoch = consumers.epoch

    async def _drop(self) -> None:
        """Nothing that was on its way counts; settled ones that the server may not know are acknowledged when they
        come again.
        """
        await self._consumers.leave(self)
        self._came.clear()
        self._acks.clear()
        self._left = 0
        self._event.clear()

    async def narrow(self, filters: Sequence[str]) -> None:
        if set(filters) != set(self._filters) or self.before:
            self._filters = list(filters)
            await self._consumers.change(self._name, filters)
            self.before = ()

    # reading

    async def heard(self, message: Msg) -> None:
        """Something came to the inbox."""
        self._heard = asyncio.get_running_loop().time()
        if message.reply.startswith("$JS.ACK."):
            self._came.append(message)
            self._left -= 1
        else:
            self._status(message)
        self._event.set()

    def _status(self, message: Msg) -> None:
        headers = message.headers or {}
        code, text = headers.get("Status", ""), headers.get("Description", "")
        if code == "100":
            return
        self._left = 0
        if code == "503" or (code == "409" and "deleted" in text.lower()):
            self._trouble = EngineDown(f"consumer {self._name} is gone, or has no leader")

    def wake(self) -> None:
        """The connection is gone."""
        self._trouble = EngineDown("the connection was lost")
        self._event.set()

    async def read(self, most: int, wait_s: float) -> list[Entry]:
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_s
        while True:
            self._event.clear()
            if self._trouble is not None:
                raise self._trouble
            entries = self._entries()
            if entries:
                return entries
            if self._left > 0 and loop.time() - self._heard > SILENCE_S:
                self._left = 0  # the server that had it is gone
            if self._left <= 0:
                await self._pull(most)
            if loop.time() >= end:
                return []
            try:
                async with asyncio.timeout(min(end - loop.time(), SILENCE_S)):
                    await self._event.wait()
            except TimeoutError:
                continue

    async def _pull(self, most: int) -> None:
        connection = self._consumers.connection
        if connection is None:
            raise EngineDown("not connected")
        self._left = most
        self._heard = asyncio.get_running_loop().time()
        body = {
            "batch": most,
            "expires": int(PULL_S * 1e9),
            "idle_heartbeat": int(BEAT_S * 1e9),
            "max_bytes": max(READ_BYTES, connection.max_payload) + 65_536,
        }
        stream = self._consumers.stream
        try:
            await connection.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{self._name}", json.dumps(body).encode(), self._inbox
            )
        except (OSError, nats.errors.Error) as e:
            raise EngineDown(str(e)) from e

    def _entries(self) -> list[Entry]:
        entries: list[Entry] = []
        while self._came:
            message = self._came.popleft()
            fields = message.reply.split(".")
            position, given = (int(fields[5]), int(fields[6])) if len(fields) == 9 else (int(fields[7]), int(fields[8]))
            if given > self._given + 1:  # those between are lost on the way: they must come before this one
                self._trouble = EngineDown("messages were lost on the way")
                self._came.clear()
                break
            self._given = max(self._given, given)
            if position in self._handed:
                self._handed[position] = message.reply
            elif position <= self._last or position in self._done:
                self._acks.append(message.reply)
            else:
                self._last = position
                self._handed[position] = message.reply
                entries.append(Entry(position, self._record(message)))
        return entries

    # settling

    def ack(self, position: int) -> None:
        reply = self._handed.pop(position, None)
        if reply is not None:
            self._done.add(position)
            self._acks.append(reply)

    async def committed(self) -> None:
        connection = self._consumers.connection
        if connection is None:
            raise EngineDown("not connected")
        acks, self._acks = self._acks, []
        if not acks:
            return
        first = min(self._handed, default=self._last + 1)
        try:
            for reply in acks[:-1]:
                await connection.publish(reply, b"+ACK")
            await self._consumers.request(acks[-1], b"+ACK", self._consumers.timeout_s)
        except BaseException as e:
            self._acks[:0] = acks  # twice does no harm
            if isinstance(e, OSError | nats.errors.Error):
                raise EngineDown(str(e)) from e
            raise
        self._done = {position for position in self._done if position > first}

    async def lag(self) -> int:
        info = await self._consumers.info(self._name)
        return 0 if info is None else info["num_pending"] + info["num_ack_pending"] - len(self._acks)

    async def close(self) -> None:
        self._consumers.rested[self._application] = self._epoch, self._done
        await self._drop()
        self._handed.clear()
