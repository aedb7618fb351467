"""One network connection: bytes in, packets to the core; bytes of the core out, one write for each loop turn."""

import asyncio
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from gateway.core import probing
from gateway.core.model import Client
from gateway.core.router import Router
from gateway.core.uplink import Login
from gateway.mqtt.errors import PacketError

CLOSE_MS: Final = 5_000  # how long a peer may take to read its last bytes
LINGER_MS: Final = 1_000  # how long it may take to close its side once they are on their way
AWAKE_TURNS: Final = 16  # polls for more before the loop sleeps: some 40 us
TRY_TURNS: Final = 256
LUCK_MAX: Final = 8
READ_BYTES_MAX: Final = 262_144  # of one connection in a turn: uvloop would read eight megabytes before others


@final
class Turn:
    """What all connections of one event loop share, and what happens once at the end of a loop turn.

    ``now`` gives the gateway time in milliseconds. ``after(now)`` runs behind
    the writes of each turn (disk, authentication, log). ``fault`` is told of an
    exception that only a defect can cause; the connection is aborted.
    """

    def __init__(
        self,
        router: Router,
        now: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
        after: Callable[[int], None],
        fault: Callable[[str, Exception], None],
    ) -> None:
        self.router = router
        self.now = now
        self.after = after
        self.fault = fault
        self.open_connections: int = 0
        self.high_water_bytes: int = 65_536
        self.number: int = 0  # of turns
        self.resting: list[Connection] = []  # read their share of this turn
        self.lingering: dict[Connection, int] = {}  # said their last word; aborted at that gateway time
        self.heard: bool = False  # something came in since the last turn
        self._empty: i64 = 0  # turns in a row in which nothing came
        self._awake: bool = False  # polling instead of sleeping
        self._luck: i64 = 0
        self._turns: i64 = 0  # in which something came
        self._call_soon = call_soon
        self._scheduled: bool = False
        self._time: int = 0
        self._fresh: bool = False
        self._run: Callable[[], None] = self.run

    def time(self) -> int:
        """Gateway ms of this loop turn: asking the clock costs more than most packets."""
        if not self._fresh:
            self._time = self.now()
            self._fresh = True
        return self._time

    def touch(self) -> None:
        """The router was called: run its output once when this turn's reads are through."""
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def run(self) -> None:
        """Write what the router has for the sockets, let push-backed connections go on, then ``after``."""
        self._scheduled = False
        self.number += 1
        now = self.time()
        self._fresh = False
        for client in self.router.take_sends():
            link = client.link
            assert isinstance(link, Connection)
            link.send(now)
        for client in self.router.take_resumed(now):
            link = client.link
            assert isinstance(link, Connection)
            link.resume(now)
        resting = self.resting
        if resting:
            self.resting = []
            for connection in resting:
                connection.read_on()
        if self.router.busy(now):
            self.after(now)
        if self._stay_awake():
            self.touch()

    def _stay_awake(self) -> bool:
        """Whether to poll once more instead of going to sleep.

        Who publishes one message at a time answers within a few turns: being woken takes as long as all the rest.
        Where it does not pay it is tried again only now and then.
        """
        if self.heard:
            self.heard = False
            if self._empty:
                self._luck = min(self._luck + 1, LUCK_MAX)
                self._empty = 0
            self._turns += 1
            self._awake = self._luck > 0 or self._turns % TRY_TURNS == 0
        elif self._awake:
            self._empty += 1
            if self._empty == AWAKE_TURNS:
                self._awake = False
                self._empty = 0
                self._luck = max(self._luck - 2, 0)
        return self._awake

    def sweep(self, now: int) -> None:
        """Close the connections that were given their last bytes; abort those that do not take them."""
        for connection, deadline in list(self.lingering.items()):
            if deadline <= now:
                connection.abort()
            elif deadline - now <= CLOSE_MS - LINGER_MS:
                connection.close_if_flushed()


@final
class Connection:
    """The protocol object that the event loop drives (the methods of asyncio.Protocol, duck-typed).

    ``anonymous`` tells whether its listener admits a client without a user name. With ``login`` it was dialled from
    here, for an uplink.
    """

    def __init__(self, turn: Turn, peer: str, anonymous: bool, login: Login | None = None) -> None:
        self.turn = turn
        self.peer = peer
        self.anonymous = anonymous
        self._login = login
        self._client: Client | None = None  # None before the start and after the last word
        self._transport: asyncio.Transport | None = None
        self._paused: bool = False
        self._turn_number: int = 0  # of the last read
        self._turn_bytes: int = 0  # read in it

    def connection_made(self, transport: asyncio.Transport) -> None:
        turn = self.turn
        turn.open_connections += 1
        self._transport = transport
        transport.set_write_buffer_limits(turn.high_water_bytes, turn.high_water_bytes // 2)
        login = self._login
        if login is None:
            self._client = turn.router.open(self, self.peer, turn.now())
        else:
            self._client = turn.router.uplinks.dial(self, self.peer, login, turn.now())
        turn.touch()

    def data_received(self, data: bytes) -> None:
        client = self._client
        if client is None:
            return  # after the last word the peer is read only to see it close
        turn = self.turn
        turn.heard = True
        turn.router.received(len(data))
        if client.congested:
            self._report_unsent()  # what it acknowledges may find room by now
        client.decoder.feed(data)
        self._feed_core(client, turn.time())
        if turn.number != self._turn_number:
            self._turn_number = turn.number
            self._turn_bytes = 0
        self._turn_bytes += len(data)
        if self._turn_bytes >= READ_BYTES_MAX and not self._paused:
            self._pause(True)
            turn.resting.append(self)

    def eof_received(self) -> bool:
        return False  # nobody half-closes MQTT: let the transport close

    def connection_lost(self, exc: Exception | None) -> None:
        turn = self.turn
        turn.open_connections -= 1
        turn.lingering.pop(self, 0)
        self._transport = None
        client = self._client
        if client is not None:
            self._client = None
            turn.router.on_closed(client, turn.now())
        turn.touch()

    def pause_writing(self) -> None:
        self._report_unsent()

    def resume_writing(self) -> None:
        self._report_unsent()
        self.turn.touch()

    def send(self, now: int) -> None:
        """Write what waits for this connection; close it when the core has said its last word."""
        client = self._client
        transport = self._transport
        if client is None or transport is None:
            return
        try:
            router = self.turn.router
            data = client.take()
            if data:
                router.sent(len(data))
                transport.write(data)
            if client.closing:
                self._finish(client, transport, len(data) > 0, now)
            else:
                congested = client.congested
                router.on_writable(client, transport.get_write_buffer_size(), now)
                if (congested and not client.congested) or client.in_sends:
                    self.turn.touch()  # what had to wait may follow
                if client.blocked != self._paused:
                    self._pause(client.blocked)
        except Exception as e:
            self.turn.fault(self.peer, e)
            transport.abort()

    def resume(self, now: int) -> None:
        """The core takes packets of this connection again."""
        client = self._client
        if client is not None:
            self._feed_core(client, now)

    def read_on(self) -> None:
        """A new turn has begun."""
        client = self._client
        if client is not None and self._paused and not client.blocked:
            self._pause(False)

    def close_if_flushed(self) -> None:
        """Close unless bytes still wait to be sent."""
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() == 0:
            transport.close()

    def abort(self) -> None:
        """Close at once; unsent bytes are thrown away."""
        transport = self._transport
        if transport is not None:
            transport.abort()

    def certificate(self) -> object:
        """The client's certificate as ``ssl`` tells it, a false value where it gave none."""
        transport = self._transport
        return None if transport is None else transport.get_extra_info("peercert")

    def replace_transport(self, transport: asyncio.Transport) -> asyncio.Transport | None:
        """Write to this one alone from now on; gives back the one before, None when the connection has ended."""
        before = self._transport
        if before is not None:
            self._transport = transport
        return before

    def _feed_core(self, client: Client, now: int) -> None:
        router = self.turn.router
        decoder = client.decoder
        try:
            while not client.blocked and not client.closing:
                packet = decoder.next()
                if packet is None:
                    break
                if client.watch is not None:
                    probing.packet(client, packet, now)
                router.on_packet(client, packet, now)
        except PacketError as bad:
            router.on_bad_packet(client, bad.reason, bad.text, now)
        except Exception as e:  # a name of its own: compiled, one name has one type
            self.turn.fault(self.peer, e)
            self.abort()
        if client.blocked != self._paused:
            self._pause(client.blocked)
        self.turn.touch()

    def _pause(self, pause: bool) -> None:
        self._paused = pause
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _report_unsent(self) -> None:
        client = self._client
        transport = self._transport
        if client is not None and transport is not None:
            self.turn.router.on_writable(client, transport.get_write_buffer_size(), self.turn.now())

    def _finish(self, client: Client, transport: asyncio.Transport, last_word: bool, now: int) -> None:
        """Flush, then close.

        A last word (CONNACK or DISCONNECT with a reason) would be lost with a
        plain close when the peer is still sending: unread bytes turn the close
        into a reset. So only the sending side is shut, and the peer is read,
        and thrown away, until it closes too.
        """
        turn = self.turn
        self._client = None
        turn.lingering[self] = now + CLOSE_MS
        turn.router.on_closed(client, now)
        if last_word and transport.can_write_eof() and not transport.is_closing():
            try:
                transport.write_eof()
                self._pause(False)
            except OSError:  # the peer was quicker
                transport.abort()
        else:
            transport.close()
        turn.touch()
