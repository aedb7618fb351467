"""Wills: on disk from CONNECT on, published or dropped once, whatever happens in between."""

from mypy_extensions import i64

from gateway.core.fanout import deliver_all, deliver_kept, deliver_rest, retain
from gateway.core.ingest import arrive, enclosed
from gateway.core.ledger import ACL
from gateway.core.message import Message
from gateway.core.model import Route, Session
from gateway.core.nodes import COMMAND, NDEATH, Source
from gateway.core.record import pack_will
from gateway.core.routes import route_of
from gateway.core.state import WILL, Core
from gateway.mqtt.packets import Will
from sparkplug.aware import stamp_death


def keep_will(core: Core, s: Session, w: Will | None) -> None:
    """The will of a new connection takes the place of a pending one [MQTT-3.1.3-9]."""
    s.will = w
    s.will_at = 0
    core.will_row(s.client_id, pack_will(w, 0) if w is not None else None)


def connection_ended(core: Core, s: Session, clean: bool, now: i64) -> None:
    """After DISCONNECT 0x00 (``clean``) the will is dropped; else it is due after its delay or with the session."""
    w = s.will
    if w is None:
        return
    if clean:
        s.will = None
        core.will_row(s.client_id, None)
    elif w.delay == 0 or s.expiry_s == 0:
        publish_will(core, s.client_id, w, s, now)
        s.will = None
    else:
        s.will_at = now + w.delay * 1000
        core.timer(s.will_at, WILL, s.sid)
        core.will_row(s.client_id, pack_will(w, s.will_at))


def session_ended(core: Core, s: Session, now: i64) -> None:
    w = s.will
    if w is not None:
        s.will = None
        publish_will(core, s.client_id, w, s, now)


def due(core: Core, sid: int, now: i64) -> None:
    s = core.by_sid.get(sid)
    if s is None or s.client is not None or s.will_at == 0 or s.will_at > now:
        return
    s.will_at = 0
    session_ended(core, s, now)


def publish_will(core: Core, client_id: str, w: Will, s: Session | None, now: i64) -> None:
    """Publication and removal of the pending will are one transaction."""
    if s is not None and s.rights is not None and not s.rights.may_write(w.topic.decode()):
        core.log.append(f"{client_id}: its will may no longer be published on {w.topic.decode()}")
        core.ledger.drop(0, ACL, 1)
        core.will_row(client_id, None)
        return
    deadline: i64 = now + w.expiry * 1000 if w.expiry >= 0 else 0
    m = Message(w.topic, w.payload, w.qos, w.retain, w.props, deadline)
    m.promised = True
    route = route_of(core, w.topic.decode())
    if w.retain:
        retain(core, route, m)
    source = route.source
    if source is not None and source.kind < COMMAND:
        ingest_will(core, route, source, m, s, now)
    else:
        deliver_all(core, route, m, s, False, now)
    core.will_row(client_id, None)
    core.commit.urgent = True


def ingest_will(core: Core, route: Route, source: Source, m: Message, s: Session | None, now: i64) -> None:
    """The death of a Sparkplug node, as if it had published it itself; no retry, so the open commit takes it always."""
    if core.limits.bridge_death_time and source.kind == NDEATH:
        m.payload = stamp_death(source.topic, m.payload, now + core.nodes.utc_offset_ms)
    late = arrive(core, None, source, m.payload, m.qos, now)
    if route.durable:
        kept = enclosed(core, m, late, now)
        kept.promised = True
        deliver_kept(core, route, kept, s, False, now)
    deliver_rest(core, route, m, s, now)
