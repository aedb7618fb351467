"""One uplink at work: dials, watches its link and the files it was made from, and says how it is."""

import asyncio
import random
import secrets
from typing import Any, Final, NamedTuple, cast, final

from gateway.core.uplink import BEAT, CONNECTED, DENIED, FORGOTTEN, LOST, OUT, REFUSED, Event, Login
from gateway.log import Log
from gateway.mqtt.reasons import reason_name
from gateway.net.connection import Turn
from gateway.settings.uplink import UplinkRow
from gateway.settings.uplink_kinds import Remote
from gateway.uplink import course
from gateway.uplink.course import Course
from gateway.uplink.dial import DialError, Held, dial, why
from gateway.uplink.files import Files
from gateway.uplink.link import attach
from gateway.uplink.login import client_id_of, login_of, refusal, status_topic_of
from gateway.uplink.remembered import Remembered

LOOK_MS: Final = 5_000  # between two looks at files and counters


class Site(NamedTuple):
    """What all uplinks of this gateway share."""

    turn: Turn
    log: Log
    remembered: Remembered


@final
class Supervisor:
    """Runs on the event loop from ``start`` to ``stop``."""

    def __init__(self, row: UplinkRow, site: Site, paused: bool) -> None:
        now = site.turn.now()
        self.row = row
        self.client_id = client_id_of(row, site.remembered.gateway_id)
        self.denied: dict[str, int] = {}  # filter -> reason code: what the broker does not let it subscribe to
        self._site = site
        self._course = Course(len(row.addresses), row.hold_off_ms, row.heartbeat_ms, now)
        self._port = site.turn.router.uplinks
        self._files = Files((row.ca, row.cert, row.key))
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._held: Held | None = None  # what carries the link
        self._beat_topic = ""  # of this link
        self._remote = ""  # likewise: the broker's name
        self._wanted: set[str] = set()  # filters that it subscribes to
        self._hung_up = 0  # links ended by this side whose end the core has still to tell: no news then
        self._nonce = secrets.token_hex(4)  # tells our heartbeats from those of a process before
        self._look_at = now
        self._last_error = ""
        self._said = ""  # of it, since there was a link
        self._shown = ""  # the state as published here
        self._rate = (now, 0, 0.0)  # time, acknowledged by then, messages/s up to then
        if paused:
            self._course.pause(now)

    def start(self) -> None:
        self._settle(self._site.turn.now())

    def stop(self) -> None:
        """The link ends; what waits stays in its queue."""
        self._cancel()
        self._hang_up(self._site.turn.now())
        self._course.pause(self._site.turn.now())
        self._show()

    def pause(self) -> None:
        self._cancel()
        now = self._site.turn.now()
        self._hang_up(now)
        self._course.pause(now)
        self._site.log.info(f"uplink {self.row.name}: paused")
        self._settle(now)

    def resume(self) -> None:
        now = self._site.turn.now()
        self._course.resume(now)
        self._settle(now)

    @property
    def address(self) -> Remote:
        """The one that is dialled or connected."""
        return self.row.addresses[self._course.address]

    def view(self, now: int) -> dict[str, Any]:
        """For ``forebay uplink list``."""
        row = self._port.row(self.row.name, now) or {}
        return {
            "name": self.row.name,
            "state": self._course.state,
            "since_s": max(now - self._course.since, 0) // 1000,
            "address": str(self.address) if self._course.linked else None,
            "addresses": [str(remote) for remote in self.row.addresses],
            "error": self._course.error or None,
            "last_error": self._last_error or None,
            "remote_client_id": self.client_id,
            "denied": dict(self.denied),
            "rate_s": round(self._rate[2], 1) if self._course.linked else 0,
            **{key: value for key, value in row.items() if key not in ("client_id", "kind", "connected", "peer")},
        }

    # what the core tells

    def on_event(self, event: Event) -> None:
        now = self._site.turn.now()
        if self._held is None and event.kind in (CONNECTED, BEAT, DENIED, FORGOTTEN):
            return  # of a link that this side has ended
        if event.kind == CONNECTED:
            self.denied.clear()
            self._said = ""
            self._course.connected(now)
            kept = "" if event.present else ", which held no session of it"
            self._site.log.info(f"uplink {self.row.name}: connected to {self.address}{kept}")
            self._forget(event.present, now)
        elif event.kind == FORGOTTEN:
            self._ask(self._wanted)
        elif event.kind == REFUSED:
            if self._held is None:
                self._hung_up = max(self._hung_up - 1, 0)
                return
            self._held = None
            text, lasting = refusal(event.code, self.row.version)
            self._failed(f"CONNECT: {text}", now, lasting)
        elif event.kind == LOST:
            self._on_lost(event, now)
        elif event.kind == BEAT:
            self._on_beat(event.data, now)
        elif event.kind == DENIED:
            self.denied[event.text] = event.code
            self._site.log.warning(
                f"uplink {self.row.name}: {self.address} refuses the subscription to {event.text} (0x{event.code:02x})"
            )
            if self._beat_topic and event.text == self._beat_topic:
                self._course.beat_refused(f"no heartbeat: the subscription to {event.text} is refused")
        self._settle(now)

    def _forget(self, present: bool, now: int) -> None:
        """What rules of before asked for would be sent, and kept while this is away, for ever."""
        gone = self._site.remembered.asked(self.row.name, self._remote) - self._wanted if present else set()
        if gone:
            self._port.unsubscribe(self.row.name, sorted(gone), now)
            self._site.log.info(f"uplink {self.row.name}: no longer subscribed to {', '.join(sorted(gone))}")
        else:
            self._ask(self._wanted)

    def _ask(self, filters: set[str]) -> None:
        try:
            self._site.remembered.ask(self.row.name, self._remote, filters)
        except OSError as e:
            self._say(f"what it subscribes to is not remembered: {e.strerror}", True)

    def _on_lost(self, event: Event, now: int) -> None:
        if self._hung_up:
            self._hung_up -= 1
            return
        if self._held is None:
            return
        held, self._held = self._held, None
        text = event.text or "connection lost"
        if event.code:
            text = f"disconnected by the broker: {reason_name(event.code)} (0x{event.code:02x})"
        elif held is not None and held.error is not None:
            text = why(held.error)
        if self._course.linked:
            self._say(f"{self.address}: {text}")
            self._course.lost(self._last_error, now, random.random())
        else:
            self._failed(text, now, False)

    def _on_beat(self, data: bytes, now: int) -> None:
        nonce, _, number = data.decode("ascii", "replace").partition(" ")
        if nonce != self._nonce or not number.isdecimal():
            return
        before = self._course.state
        self._course.beat_back(int(number), now)
        if self._course.state != before:
            self._site.log.info(f"uplink {self.row.name}: forwarding, {self.address} sends back what it gets")

    # what time brings

    def _tick(self) -> None:
        self._timer = None
        now = self._site.turn.now()
        try:
            self._act(now)
        finally:  # a defect in one tick must not be the end of all ticks
            self._settle(now)

    def _act(self, now: int) -> None:
        before, at = self._course.state, self.address
        action = self._course.tick(now, self._port.received(self.row.name))
        if action == course.LEAVE or self._course.state == course.STALLED != before:
            self._last_error = self._course.error
            self._site.log.warning(f"uplink {self.row.name}: {at} takes but does not forward: {self._course.error}")
        if action == course.DIAL:
            self._dial(self._course.address)
        elif action == course.RETURN:
            self._dial(0)
        elif action == course.LEAVE:
            self._hang_up(now)
        elif action == course.GIVE_UP:
            self._hang_up(now)
            self._failed(f"CONNECT: no answer within {course.HANDSHAKE_MS // 1000} s", now, False)
        elif action == course.BEAT:
            self._port.beat(self.row.name, f"{self._nonce} {self._course.beat}".encode(), now)
        if self._course.linked and now >= self._look_at:
            self._look(now)

    def _look(self, now: int) -> None:
        """A renewed certificate asks for a new connection; the one that is there stays until that is open."""
        self._look_at = now + LOOK_MS
        if self.address.tls and self._files.changed():
            self._site.log.info(f"uplink {self.row.name}: new certificate files, connecting anew")
            self._dial(self._course.address)
        row = self._port.row(self.row.name, now) or {}
        done = row.get("acknowledged", 0)
        then, before, _ = self._rate
        if isinstance(done, int) and now > then:
            self._rate = (now, done, max(done - before, 0) * 1000 / (now - then))

    def _settle(self, now: int) -> None:
        """Behind every change: what it means for the next tick and for those who watch."""
        self._show()
        if self._timer is not None:
            self._timer.cancel()
        due = self._course.due
        if self._course.linked:
            due = min(due, self._look_at)
        self._timer = self._loop.call_later(max(due - now, 0) / 1000, self._tick) if due < course.FAR else None
        self._site.turn.touch()

    def _show(self) -> None:
        """The state on the topic of mosquitto's bridges."""
        state = "1" if self._course.linked else "0"
        if state != self._shown and self.row.status_topics != "off":
            self._shown = state
            topic = status_topic_of(self.row, self.client_id)
            self._site.turn.router.bridge.publish(topic, state.encode(), 1, True, self._site.turn.now())

    # dialling

    def _dial(self, address: int) -> None:
        """In a task; a link that is there stays until the new one is open."""
        if self._dialling is None:
            self._dialling = self._loop.create_task(self._run(address))

    async def _run(self, address: int) -> None:
        remote = self.row.addresses[address]
        try:
            login = login_of(self.row, remote, self.client_id)
            self._files.changed()  # what is there now is what this connection is made from
            held = await dial(self.row, remote)
        except DialError as e:
            self._dialling = None
            now = self._site.turn.now()
            if self._course.linked:
                self._say(f"{remote} cannot take over: {e}")
            else:
                self._failed(str(e), now, e.refused)
            self._settle(now)
            return
        except Exception as e:  # a defect must not leave it without a next try
            self._dialling = None
            self._site.log.defect(f"uplink {self.row.name}", e)
            now = self._site.turn.now()
            self._failed(type(e).__name__, now, False)
            self._settle(now)
            return
        self._dialling = None
        self._attach(held, login, address)

    def _attach(self, held: Held, login: Login, address: int) -> None:
        now = self._site.turn.now()
        self._hang_up(now)
        self._course.switched(address, now)
        self._held = held
        self._beat_topic = login.beat_topic
        self._remote = login.remote
        self._wanted = {rule.there for rule in self.row.rules if rule.direction != OUT} | {login.beat_topic} - {""}
        self._ask(self._site.remembered.asked(self.row.name, self._remote) | self._wanted)
        remote = self.row.addresses[address]
        # a compiled class has no Protocol for a base, only its methods
        held.take(cast(asyncio.Protocol, attach(self._site.turn, login, f"{remote.host}:{remote.port}")))
        self._settle(now)

    def _hang_up(self, now: int) -> None:
        """End the link, if there is one."""
        if self._held is not None:
            self._held = None
            self._hung_up += 1
            self._port.close(self.row.name, now)
            self._site.turn.touch()

    def _cancel(self) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None

    def _failed(self, error: str, now: int, lasting: bool) -> None:
        """No link to the address that was dialled."""
        text = f"{self.address}: {error}"
        self._say(text, lasting)
        self._course.failed(text, now, random.random(), lasting)

    def _say(self, text: str, lasting: bool = False) -> None:
        """Once, until it is another."""
        self._last_error = text
        if text == self._said:
            return
        self._said = text
        if lasting:
            self._site.log.warning(f"uplink {self.row.name}: {text}")
        else:
            self._site.log.noise(f"uplink {self.row.name}", f"uplink {self.row.name}: {text}")
