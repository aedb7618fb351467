"""Persistent sessions that the broker makes itself: they are there whether anybody comes for them or not."""

from mypy_extensions import i64

from gateway.core.lifecycle import new_session
from gateway.core.limits import NEVER
from gateway.core.model import Session
from gateway.core.state import RETAINED, Core
from gateway.core.subscribe import subscribe, unsubscribe
from gateway.core.topics import SHARE
from gateway.core.uplink import DEAD_PREFIX, Uplink
from gateway.mqtt.packets import V5, Filter


def resident(core: Core, client_id: str) -> Session:
    """The session of this client id, which never expires; made where it is missing."""
    s = core.sessions.get(client_id)
    if s is None:
        s = new_session(core, core.next_sid, client_id, True)
        core.next_sid += 1
        s.expiry_s = NEVER
        s.version = V5
        core.session_row(s, 0)
        core.commit.urgent = True
    return s


def subscribed(core: Core, s: Session, wanted: list[Filter], now: i64) -> None:
    """Its subscriptions become these; what is no filter is named in an alarm."""
    filters = {f.filter for f in wanted}
    for filter in list(s.subscriptions):
        if filter not in filters:
            unsubscribe(core, s, filter, now)
    for f in wanted:
        old = s.subscriptions.get(f.filter)
        if old is None or old.qos != f.qos or old.no_local != f.no_local:
            code = 0x80 if f.filter.startswith(SHARE) else subscribe(core, V5, s, f, 0)
            if code >= 0x80:
                core.alarms.append(f"{s.client_id}: {f.filter!r} is no topic filter: nothing is handed on by it")
    if s.fresh:
        core.wait(RETAINED, None, s, 0, b"")


def grave(core: Core, uplink: Uplink) -> None:
    """What waits for who comes for the dead letters of an uplink; a reader may have ended it, or its subscription."""
    s = resident(core, DEAD_PREFIX + uplink.name)
    filter = uplink.dead_topic + "/#"
    if filter not in s.subscriptions:
        subscribe(core, V5, s, Filter(filter, 1, False, False, 2), 0)
