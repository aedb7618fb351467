"""NATS JetStream as the engine: one replicated stream, one durable pull consumer for each application.

A consumer is made anew, behind what is settled, whenever an application is opened: so what was on its way to another
gateway comes again at once and in order, and that gateway is told (nats_cursor.py).
"""

import asyncio
import base64
import contextlib
import json
import logging
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, final

import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from gateway.store.engine import Cursor, EngineDown, EngineError, EngineRefused, Record
from gateway.store.login import Login
from gateway.store.monitors import syncs
from gateway.store.nats_cursor import Consumers, NatsCursor
from gateway.store.subjects import is_long, subject, topic

VERSION_MIN: Final = (2, 10)  # several filter subjects for one consumer
BURST: Final = 512  # records on their way at a time
BURST_BYTES: Final = 1_048_576
DUPLICATES_S: Final = 30  # for so long the stream knows what it has: what is given again in it is not stored twice
HEADER_ROOM: Final = 1024  # of what a message may hold, for what is no payload
META: Final = "Forebay"
TOPIC: Final = "Forebay-Topic"
ID: Final = "Nats-Msg-Id"
BEHIND: Final = "Nats-Expected-Last-Msg-Id"

# error codes of the server
NO_STREAM: Final = 10059
WRONG_LAST_ID: Final = 10070
IN_PROCESS: Final = 10158
CONFLICTS: Final = (WRONG_LAST_ID, IN_PROCESS)


class NatsOptions(NamedTuple):
    """``identity``: eight hexadecimal digits that no other gateway has and this one keeps. ``timeout_s``: how long an
    answer may take.
    """

    servers: Sequence[str]
    identity: str
    stream: str
    replicas: int
    max_bytes: int
    monitors: Sequence[str]
    timeout_s: float
    login: Callable[[], Login] = Login


@final
class NatsEngine:
    """The protocol ``store.engine.Engine``. ``lost`` is called when the connection ends by itself."""

    name: Final = "nats"

    def __init__(self, options: NatsOptions, lost: Callable[[], None]) -> None:
        self.largest = 0
        self._options = options
        self._lost = lost
        self._connection: Connection | None = None
        self._consumers = Consumers(options.stream, options.identity, options.timeout_s, self._request)
        self._run = secrets.token_hex(5)  # of the message ids of this process
        self._size = BURST
        self._answers: dict[int, dict[str, Any] | None] = {}
        self._all: asyncio.Future[None] | None = None
        self._expected = 0
        self._inbox = ""
        self._burst = 0
        self._sync = "unknown"
        self._server = ""

    # the connection

    async def connect(self) -> None:
        await self.close()
        login = self._options.login()
        servers = list(self._options.servers)
        random.shuffle(servers)
        for server in servers[:-1]:
            with contextlib.suppress(EngineDown):
                await self._connect(server, login)
                return
        await self._connect(servers[-1], login)

    async def _connect(self, server: str, login: Login) -> None:
        o = self._options
        connection = Connection()
        try:
            await connection.connect(
                [server],
                name="forebay",
                allow_reconnect=False,  # what was not answered must go again before all that follows
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, int(o.timeout_s)),
                ping_interval=max(1, int(o.timeout_s)),
                max_outstanding_pings=2,
                error_cb=_on_error,
                closed_cb=self._closed,
                user=login.user or None,
                password=login.password or None,
                user_jwt_cb=(lambda: bytearray(login.token.encode())) if login.sign is not None else None,
                signature_cb=login.sign,
                tls=login.tls,
                pending_size=64 * 1024 * 1024,
            )
        except nats.errors.AuthorizationError as e:
            await connection.close()
            raise EngineRefused(f"{server}: {e}") from e
        except (OSError, TimeoutError, nats.errors.Error, ValueError) as e:
            await connection.close()
            why = connection.last_error if isinstance(e, nats.errors.NoServersError) else e
            raise EngineDown(f"{server}: {str(why) or 'no answer'}") from e
        self._connection = self._consumers.connection = connection
        try:
            await self._check(connection)
        except EngineError:
            await self.close()
            raise

    async def _check(self, connection: Connection) -> None:
        version = connection.connected_server_version
        self._server = f"{version.major}.{version.minor}.{version.patch}"
        if (version.major, version.minor) < VERSION_MIN:
            raise EngineRefused(
                f"nats-server {self._server} is too old: expected 2.10 or newer (several filter subjects)"
            )
        self.largest = connection.max_payload - HEADER_ROOM
        await self._make_stream()
        self._sync = await syncs(self._options.monitors)
        self._inbox = connection.new_inbox()
        await connection.subscribe(f"{self._inbox}.*.*", cb=self._on_answer, pending_bytes_limit=0)

    async def _make_stream(self) -> None:
        o = self._options
        config: dict[str, Any] = {
            "name": o.stream,
            "description": "Forebay: the log of the applications",
            "subjects": [f"{o.stream}.>"],
            "retention": "limits",
            "discard": "new",  # full means that nothing new is taken, never that something unread goes
            "storage": "file",
            "num_replicas": o.replicas,
            "max_bytes": o.max_bytes or -1,
            "duplicate_window": DUPLICATES_S * 1_000_000_000,
        }
        found = await self._api(f"STREAM.INFO.{o.stream}", {})
        error = found.get("error")
        if error is None:
            there = found["config"]
            self._consumers.epoch = found["created"]
            for key in ("subjects", "retention", "discard", "storage"):
                if there.get(key) != config[key]:
                    raise EngineRefused(f"stream {o.stream}: {key} is {there.get(key)!r}: expected {config[key]!r}")
            if all(there.get(key) == config[key] for key in ("num_replicas", "max_bytes")):
                return
            config = {**there, "num_replicas": o.replicas, "max_bytes": config["max_bytes"]}
            error = (await self._api(f"STREAM.UPDATE.{o.stream}", config)).get("error")
        elif error.get("err_code") == NO_STREAM:
            made = await self._api(f"STREAM.CREATE.{o.stream}", config)
            error = made.get("error")
            self._consumers.epoch = made.get("created", "")
        if error is None:
            return
        text = f"stream {o.stream}: {error.get('description', 'refused')}"
        if error.get("code") == 503 or error.get("err_code") in (10008, 10023):
            raise EngineDown(text)
        raise EngineRefused(text)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._consumers.lost()
            try:
                await connection.close()
            except (OSError, TimeoutError, nats.errors.Error):
                pass

    async def _closed(self) -> None:
        connection = self._connection
        if connection is not None and connection.is_closed:
            self._connection = None
            if self._all is not None and not self._all.done():
                self._all.set_exception(EngineDown("the connection was lost"))
            self._consumers.lost()
            self._lost()

    # the control interface

    async def _request(self, what: str, payload: bytes, timeout_s: float) -> bytes:
        connection = self._connection
        if connection is None or connection.is_closed:
            raise EngineDown("not connected")
        try:
            answer = await connection.request(what, payload, timeout=timeout_s)
        except nats.errors.NoRespondersError as e:
            raise EngineDown("JetStream does not answer: it is off there, or has no leader") from e
        except (OSError, TimeoutError, nats.errors.Error) as e:
            raise EngineDown(str(e) or "no answer") from e
        return answer.data

    async def _api(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        data = await self._request(f"$JS.API.{what}", json.dumps(body).encode(), self._options.timeout_s)
        answer: dict[str, Any] = json.loads(data)
        return answer

    # what is appended

    async def append(self, number: int, records: Sequence[Record], kept: Callable[[int], None]) -> None:
        done = 0
        while done < len(records):
            n, conflict = await self._send(number + done, records[done : done + self._size])
            done += n
            if n:
                kept(done)
            if conflict:  # another gateway's came between ours: what followed it was not taken
                self._size = max(1, self._size // 2)
                if not n:
                    await asyncio.sleep(0.002)
            elif self._size < BURST:
                self._size = min(BURST, self._size + 8)

    async def _send(self, number: int, records: Sequence[Record]) -> tuple[int, bool]:
        """One burst: how many of it were taken, from the first on, and whether another gateway's came between them.

        Each but the first is taken only right behind the one before, so that nothing is stored behind a gap.
        """
        connection = self._connection
        if connection is None:
            raise EngineDown("not connected")
        self._burst += 1
        self._answers = {}
        waits = self._all = asyncio.get_running_loop().create_future()
        self._expected = len(records)
        size = 0
        try:
            for at, record in enumerate(records):
                size += len(record.payload)
                if at and size > BURST_BYTES:
                    self._expected = at
                    break
                await self._publish(connection, number + at, at, record)
            self._finish()
            async with asyncio.timeout(self._options.timeout_s):
                await waits
        except TimeoutError:
            pass  # what was answered counts
        except (OSError, nats.errors.Error) as e:
            raise EngineDown(str(e)) from e
        finally:
            self._all = None
        return self._judge()

    async def _publish(self, connection: Connection, number: int, at: int, record: Record) -> None:
        stream = self._options.stream
        to = subject(stream, record.topic)
        headers = {ID: f"{self._run}-{number}"}
        if at:
            headers[BEHIND] = f"{self._run}-{number - 1}"
        meta = describe(record)
        if meta:
            headers[META] = meta
        if is_long(stream, to):
            headers[TOPIC] = base64.b64encode(record.topic.encode()).decode()
        await connection.publish(to, record.payload, f"{self._inbox}.{self._burst}.{at}", headers)

    async def _on_answer(self, message: Msg) -> None:
        _, burst, at = message.subject.rsplit(".", 2)
        if int(burst) != self._burst:
            return
        if message.data:
            self._answers[int(at)] = json.loads(message.data)
        else:
            self._answers[int(at)] = {"error": {"code": 503, "description": "the stream has no leader"}}
        self._finish()

    def _finish(self) -> None:
        waits = self._all
        if waits is not None and not waits.done() and len(self._answers) >= self._expected:
            waits.set_result(None)

    def _judge(self) -> tuple[int, bool]:
        for at in range(self._expected):
            answer = self._answers.get(at)
            error = answer.get("error") if answer is not None else {"description": "no answer"}
            if error is None:
                continue
            conflict = error.get("err_code") in CONFLICTS
            if at or conflict:
                return at, conflict
            raise EngineDown(f"stream {self._options.stream}: {error.get('description', 'refused')}")
        return self._expected, False

    # who reads

    async def declare(self, application: str, filters: Sequence[str], earliest: bool) -> None:
        await self._consumers.declare(application, filters, earliest)

    async def open(self, application: str, filters: Sequence[str], earliest: bool, fresh: bool) -> Cursor:
        cursor = NatsCursor(self._consumers, application, filters, earliest, fresh, self._record)
        await cursor.resume()
        return cursor

    async def forget(self, application: str, wherever: bool) -> None:
        await self._consumers.forget(application, wherever)

    def _record(self, message: Msg) -> Record:
        headers = message.headers or {}
        stream = self._options.stream
        name = headers.get(TOPIC)
        if name:
            name = base64.b64decode(name).decode()
        else:
            name = topic(stream, message.subject)
        return described(name, message.data, headers.get(META, ""))

    # upkeep

    async def trim(self) -> None:
        last: int = (await self._info())["state"]["last_seq"]  # a consumer that comes from now on begins behind it
        floors = await self._consumers.floors()
        if last:
            await self._api(f"STREAM.PURGE.{self._options.stream}", {"seq": min([last, *floors]) + 1})

    async def _info(self) -> dict[str, Any]:
        info = await self._api(f"STREAM.INFO.{self._options.stream}", {})
        if "error" in info:
            raise EngineDown(str(info["error"].get("description")))
        return info

    async def stats(self) -> dict[str, Any]:
        info = await self._info()
        state, cluster = info["state"], info.get("cluster") or {}
        replicas = cluster.get("replicas") or []
        behind = [one["name"] for one in replicas if one.get("offline") or not one.get("current")]
        return {
            "server": f"nats-server {self._server}",
            "messages": state["messages"],
            "bytes": state["bytes"],
            "replicas": info["config"]["num_replicas"],
            "replicas_behind": behind,
            "sync": self._sync,
        }


async def _on_error(error: Exception) -> None:
    """What the network brings is told as an exception of a call, or as the end of the connection."""
    if not isinstance(error, OSError | nats.errors.Error):
        logging.getLogger(__name__).error("nats", exc_info=error)


def describe(record: Record) -> str:
    """What goes along with the payload, for a header; "" = QoS 1 and nothing else."""
    parts: list[str] = []
    if not record.qos:
        parts.append("q=0")
    if record.retain:
        parts.append("r=1")
    if record.expires_ms:
        parts.append(f"e={record.expires_ms}")
    if record.props:
        parts.append(f"p={base64.b64encode(record.props).decode()}")
    return ";".join(parts)


def described(topic: str, payload: bytes, text: str) -> Record:
    """The inverse; what another program has published there has no such header. What cannot be read is left out."""
    qos, retain, props, expires_ms = 1, False, b"", 0
    for part in text.split(";") if text else ():
        key, _, value = part.partition("=")
        try:
            if key == "q":
                qos = 1 if value == "1" else 0
            elif key == "r":
                retain = value == "1"
            elif key == "e":
                expires_ms = int(value)
            elif key == "p":
                props = base64.b64decode(value, validate=True)
        except ValueError:
            continue
    return Record(topic, payload, qos, retain, props, expires_ms)
