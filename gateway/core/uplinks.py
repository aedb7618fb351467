"""What the uplinks' driver has of the core: settings and connections go in, events come out."""

from typing import final

from mypy_extensions import i64

from gateway.core import calls, report, rules
from gateway.core.lifecycle import end_session
from gateway.core.model import Client, Session
from gateway.core.origin import origin_pair
from gateway.core.resident import grave, resident, subscribed
from gateway.core.state import Core
from gateway.core.uplink import DEAD_PREFIX, SESSION_PREFIX, Event, Login, Uplink
from gateway.mqtt.packets import Filter
from gateway.mqtt.reasons import ADMINISTRATIVE_ACTION


@final
class UplinkPort:
    """``now`` is gateway time in ms. An uplink's session is there from configure() on, connected or not."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._uplinks: dict[str, Uplink] = {}  # by the client id of their sessions

    def configure(self, uplinks: list[Uplink], origin: str, hops_max: int, now: int) -> None:
        """These are the uplinks from now on; their sessions get the subscriptions that the rules ask for.

        ``origin`` marks what this gateway hands on (user property ``uplink-origin``): unique among gateways, 1 to
        128 characters. What has come through ``hops_max`` gateways goes no further. A session of an uplink that
        is configured no more keeps what it has and gets nothing new; it ends when it has nothing.
        A connection stays, but for one whose rules or limits have changed: that is closed, to be dialled anew.
        """
        core = self._core
        core.uplinks.origin = origin
        core.uplinks.hops_max = hops_max
        core.uplinks.mark = origin_pair(origin) if uplinks else b""
        self._uplinks = {uplink.client_id: uplink for uplink in uplinks}
        for s in list(core.sessions.values()):
            if s.client_id.startswith(SESSION_PREFIX) and s.client_id not in self._uplinks:
                leave(core, s, now)
        for uplink in uplinks:
            enter(core, uplink, now)

    def removed(self, client_id: str, now: int) -> None:
        """An operator has ended this session: that of an uplink begins anew, with nothing that waits."""
        uplink = self._uplinks.get(client_id)
        if uplink is not None:
            enter(self._core, uplink, now)

    def dial(self, link: object, peer: str, login: Login, now: int) -> Client:
        """A transport to the remote is open: the CONNECT leaves. Another connection of this uplink is closed.

        Called by net.connection.Connection; KeyError when no such uplink is configured.
        """
        core = self._core
        s = core.sessions[SESSION_PREFIX + login.uplink]
        if s.uplink is None:
            raise KeyError(login.uplink)
        return calls.dial(core, link, peer, s, login, now)

    def close(self, name: str, now: int) -> None:
        """End its connection, if there is one; the remote publishes the will (status "0")."""
        c = self._core.uplinks.calls.get(name)
        if c is not None:
            calls.hang_up(self._core, c, "closed here", ADMINISTRATIVE_ACTION, now)

    def beat(self, name: str, data: bytes, now: int) -> bool:
        """Publish ``data`` at QoS 0 on the remote's heartbeat topic; BEAT is the event of its return.

        False when it is not connected or has no such topic.
        """
        c = self._core.uplinks.calls.get(name)
        if c is None or c.remote is None or not c.connected or c.closing or not c.remote.login.beat_topic:
            return False
        calls.beat(self._core, c, c.remote, data)
        return True

    def unsubscribe(self, name: str, filters: list[str], now: int) -> None:
        """End subscriptions that the remote's session has and no rule asks for; FORGOTTEN is the event of its answer.

        Nothing happens when it is not connected.
        """
        c = self._core.uplinks.calls.get(name)
        if c is not None and c.remote is not None and c.session is not None and not c.closing and filters:
            calls.unsubscribe(self._core, c, c.session, c.remote, filters)

    def received(self, name: str) -> int:
        """Messages that its connection has brought."""
        c = self._core.uplinks.calls.get(name)
        return c.remote.received if c is not None and c.remote is not None else 0

    def take_events(self) -> list[Event]:
        """What happened since the last call, in its order."""
        events = self._core.uplinks.events
        self._core.uplinks.events = []
        return events

    def row(self, name: str, now: int) -> dict[str, object] | None:
        """What ``forebay sessions`` shows of its session, and ``remote`` (of the last connection), ``session_present``,
        ``pause_ms`` (until it sends again), ``refused`` (the remote's reason code -> messages), ``too_large`` (what
        it sent and we do not take), ``dead_topic`` and ``dead_session``; None when there is no such uplink.
        """
        core = self._core
        s = core.sessions.get(SESSION_PREFIX + name)
        if s is None or s.uplink is None:
            return None
        row = report.session_row(core, s, now)
        c = s.client
        remote = c.remote if c is not None else None
        row["remote"] = s.user or None
        row["session_present"] = remote.present if remote is not None else None
        row["pause_ms"] = max(0, remote.until - now) if remote is not None and remote.until else 0
        row["refused"] = {f"0x{code:02X}": n for code, n in core.uplinks.refused.get(s.client_id, {}).items()}
        row["too_large"] = core.uplinks.too_large.get(name, 0)
        row["dead_topic"] = s.uplink.dead_topic or None
        row["dead_session"] = DEAD_PREFIX + name if s.uplink.dead_topic else None
        return row


def enter(core: Core, uplink: Uplink, now: i64) -> None:
    """Its session, with the subscriptions of its rules."""
    s = resident(core, uplink.client_id)
    before = s.uplink
    s.uplink = uplink
    if before is not None and before.key() != uplink.key():
        c = core.uplinks.calls.get(uplink.name)
        if c is not None:
            calls.hang_up(core, c, "its settings have changed", ADMINISTRATIVE_ACTION, now)
    no_local = bool(uplink.in_rules())
    wanted: dict[str, Filter] = {}
    for rule in uplink.out_rules():
        known = wanted.get(rule.here)
        if known is None or known.qos < rule.qos:
            wanted[rule.here] = Filter(rule.here, rule.qos, no_local, True, 1)
    subscribed(core, s, list(wanted.values()), now)
    rules.apply(core, s)
    if uplink.dead_topic:
        grave(core, uplink)


def leave(core: Core, s: Session, now: i64) -> None:
    """An uplink that is configured no more."""
    name = s.client_id[len(SESSION_PREFIX) :]
    c = core.uplinks.calls.get(name)
    if c is not None:
        calls.hang_up(core, c, "configured no more", ADMINISTRATIVE_ACTION, now)
    s.uplink = None
    subscribed(core, s, [], now)
    waits = s.owed()
    if waits:
        remove = f"forebay sessions remove '{s.client_id}'"
        core.alarms.append(f"uplink {name} is configured no more: {waits} messages wait for it ({remove})")
    else:
        end_session(core, s, now)
