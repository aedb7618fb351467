"""A connection from CONNECT to its end, and the life of its session."""

from typing import Final

from mypy_extensions import i64

from gateway.core import outer, pacing, probing
from gateway.core.acl import Acl
from gateway.core.backlog import end, unload
from gateway.core.delayed import OFFERS_DELAYED
from gateway.core.delivery import reserve_ids
from gateway.core.earliest import expect
from gateway.core.engine import ENGINE_ID
from gateway.core.feed import feed
from gateway.core.hold import harvest
from gateway.core.ingest import connection_ended as nodes_left
from gateway.core.ledger import QOS0_OFFLINE, SESSION_END
from gateway.core.limits import NEVER
from gateway.core.model import RELEASED, SENT, Backlog, Client, Session
from gateway.core.origin import ORIGIN, first_mark
from gateway.core.paths import choose
from gateway.core.patterns import matches
from gateway.core.pump import pump
from gateway.core.ranks import enable, in_memory, overtake, sids, zero_waits
from gateway.core.routes import is_closed
from gateway.core.seen import Seen, remember
from gateway.core.shared import hand_over, pump_groups, regroup
from gateway.core.state import CONNACKED, Core
from gateway.core.state import SESSION_END as SESSION_TIMER
from gateway.core.subscribe import leave, withdraw_from
from gateway.core.uplink import SESSION_PREFIX
from gateway.core.wills import connection_ended, keep_will, session_ended
from gateway.mqtt.decode import check_topic_name
from gateway.mqtt.encode import encode, fit
from gateway.mqtt.errors import PacketError, ProtocolError
from gateway.mqtt.packets import V5, Connack, Connect, Disconnect, Properties
from gateway.mqtt.reasons import (
    BAD_AUTHENTICATION_METHOD,
    BAD_USER_NAME_OR_PASSWORD,
    CLIENT_IDENTIFIER_NOT_VALID,
    DISCONNECT_WITH_WILL_MESSAGE,
    MALFORMED_PACKET,
    NOT_AUTHORIZED,
    PACKET_TOO_LARGE,
    PROTOCOL_ERROR,
    RECEIVE_MAXIMUM_EXCEEDED,
    SESSION_TAKEN_OVER,
    TOPIC_ALIAS_INVALID,
    TOPIC_NAME_INVALID,
    connack_v3,
)

# why a client may end a connection, of what happens here
FROM_CLIENT: Final = frozenset(
    {
        MALFORMED_PACKET,
        PROTOCOL_ERROR,
        TOPIC_NAME_INVALID,
        RECEIVE_MAXIMUM_EXCEEDED,
        TOPIC_ALIAS_INVALID,
        PACKET_TOO_LARGE,
    }
)


def on_connect(core: Core, c: Client, p: Connect) -> None:
    """Check what can be checked at once; then the driver is asked whether the client may come in."""
    if c.connect is not None:
        raise ProtocolError("second CONNECT")  # [MQTT-3.1.0-2]
    c.connect = p
    c.version = p.version
    properties = p.properties
    if properties is not None:
        c.problem_information = properties.request_problem_information != 0
        if properties.authentication_method is not None:
            refuse(core, c, BAD_AUTHENTICATION_METHOD)
            return
    ours = p.client_id.startswith(SESSION_PREFIX) or p.client_id == ENGINE_ID
    if ours or len(p.client_id) > core.limits.max_clientid_chars:
        refuse(core, c, CLIENT_IDENTIFIER_NOT_VALID)
        return
    if core.uplinks.calls and p.version != V5 and core.uplinks.dials_as(p.client_id):
        core.log.append(f"{p.client_id}: an uplink that leads to this gateway itself is refused")
        refuse(core, c, CLIENT_IDENTIFIER_NOT_VALID)
        return
    if not p.client_id and not p.clean_start and p.version != V5:
        refuse(core, c, CLIENT_IDENTIFIER_NOT_VALID)  # [MQTT-3.1.3-8]
        return
    if p.will is not None:
        try:
            name = check_topic_name(p.will.topic)
        except PacketError as e:
            refuse(core, c, e.reason)
            return
        if is_closed(core.limits, name):
            refuse(core, c, TOPIC_NAME_INVALID)
            return
    if core.watches and probing.refused(core, p, c.heard):
        c.closing = True
        core.touch(c)
        return
    core.block(c)
    core.door.asking.append(c)


def refuse(core: Core, c: Client, reason: int) -> None:
    """CONNACK with a reason, and the end of the connection [MQTT-3.2.2-7]."""
    core.ledger.connections_refused += 1
    code = reason if c.version == V5 else connack_v3(reason)
    core.send(c, encode(Connack(False, code), c.version))
    c.closing = True


def turn_away(core: Core, c: Client, reason: int) -> None:
    """In place of an answer to who it is: it may not come in, whoever it is."""
    if not c.closed and not c.closing:
        core.unblock(c)
        refuse(core, c, reason)


def on_authenticated(core: Core, c: Client, ok: bool, now: i64) -> None:
    if c.closed or c.closing:
        return
    p = c.connect
    assert p is not None
    if not ok:
        core.unblock(c)
        refuse(core, c, NOT_AUTHORIZED if p.username is None else BAD_USER_NAME_OR_PASSWORD)
        return
    if core.limits.acl is not None and not within_rights(core, core.limits.acl, p):
        core.unblock(c)
        refuse(core, c, NOT_AUTHORIZED)
        return
    admit(core, c, p, now)


def within_rights(core: Core, acl: Acl, p: Connect) -> bool:
    """Its will is a PUBLISH as any other, and whoever is held to rules does not take over what another user left."""
    rights = acl.of(p.username or "", p.client_id)
    if rights is None:
        return True
    if p.will is not None and not rights.may_write(p.will.topic.decode()):
        core.log.append(f"{p.client_id}: its will may not be published on {p.will.topic.decode()}: refused")
        return False
    s = core.sessions.get(p.client_id)
    if s is not None and s.user and s.user != p.username:
        core.log.append(f"{p.client_id}: user {p.username} may not take over the session of user {s.user}: refused")
        return False
    return True


def expiry_of(core: Core, p: Connect) -> tuple[int, int]:
    """Session expiry interval in s, and the least that a rule for this client id grants to one that resumes."""
    limits = core.limits
    least = 0
    if not p.clean_start:
        for pattern, seconds in limits.min_session_expiry:
            if matches(p.client_id, pattern):
                least = seconds
                break
    if p.version != V5:
        asked = 0 if p.clean_start else limits.session_expiry_s
    else:
        properties = p.properties
        asked = 0 if properties is None else max(properties.session_expiry_interval, 0)
    return max(min(asked, limits.max_session_expiry_s), least), least


def admit(core: Core, c: Client, p: Connect, now: i64) -> None:
    client_id = p.client_id
    assigned = ""
    if not client_id:
        core.seed = (core.seed * 6364136223846793005 + 1442695040888963407) % 2**64
        assigned = f"auto-{core.seed:016x}-{core.next_sid}"
        client_id = assigned
    s = core.sessions.get(client_id)
    rival = ""
    if s is not None and s.client is not None:
        core.ledger.takeovers += 1
        rival = s.client.peer
        disconnect(core, s.client, SESSION_TAKEN_OVER, now)
        s = core.sessions.get(client_id)
    changed = False  # something durable that the CONNACK speaks of
    if s is not None and p.clean_start:
        changed = s.durable
        end_session(core, s, now)
        s = None
    present = s is not None
    expiry_s, least = expiry_of(core, p)
    if s is None:
        s = new_session(core, core.next_sid, client_id, expiry_s > 0)
        core.next_sid += 1
    s.client = c
    s.version = p.version
    s.expiry_s = expiry_s
    s.min_expiry_s = least
    s.deadline = 0
    c.session = s
    c.meter = pacing.meter(core, now)
    core.session_row(s, 0)
    if s.durable:
        reserve_ids(core, s, now)
    seen = remember(core.seen, client_id)
    if rival:
        taken_over(core, seen, rival, c.peer, now)
    seen.came(p, c.peer, assigned != "", s.matched, now)
    c.seen = seen
    keep_will(core, s, p.will)
    settle_properties(core, c, p)
    before = s.user
    settle_path(core, c, s, p)
    if not present and s.outer is None:
        expect(core, s)
    elif s.rights is not None and s.user != before:
        withdraw_from(core, s, s.rights, now)
    if core.watches:
        probing.admitted(core, c, client_id, p, now)
    answer = connack(core, c, p, present, assigned, expiry_s)
    data = fit(answer, c.version, c.max_packet) or encode(answer, c.version)
    if s.durable or changed or p.will is not None or client_id in core.commit.wills:
        core.wait(CONNACKED, c, s, 0, data)
    else:
        connacked(core, c, data, now)


def taken_over(core: Core, seen: Seen, rival: str, peer: str, now: i64) -> None:
    """One or two are a client that comes back sooner than it is missed; what goes on is told ever more rarely."""
    before = seen.quarrels
    seen.taken(rival, now)
    core.log.append(f"{seen.client_id}: {peer} takes over from {rival}")
    if seen.quarrels > before and str(seen.quarrels).rstrip("0") == "5":
        core.alarms.append(
            f"two clients have the client id {seen.client_id}: {rival} and {peer} have ended each other's connection "
            f"{seen.quarrels} times; give one of them another id"
        )


def new_session(core: Core, sid: int, client_id: str, durable: bool) -> Session:
    s = Session(sid, client_id)
    core.sessions[client_id] = s
    core.by_sid[sid] = s
    if durable:
        b = Backlog(sid, core.next_seq - 1)
        b.session = s
        s.backlog = b
        s.id_end = 0
        s.id_wanted = 0
        core.dirty_session(s)
    enable(core, s)
    return s


def settle_properties(core: Core, c: Client, p: Connect) -> None:
    """What the client asked for, within what the limits allow."""
    limits = core.limits
    properties = p.properties if p.properties is not None else Properties()
    receive_maximum = properties.receive_maximum if properties.receive_maximum > 0 else 65535
    c.window = min(receive_maximum, limits.max_inflight)
    c.max_packet = max(properties.maximum_packet_size, 0)
    c.alias_out_max = max(properties.topic_alias_maximum, 0)
    if core.uplinks.mark and ORIGIN in dict(properties.user_properties):
        c.mark = first_mark(core.uplinks.origin)
    c.simple = c.max_packet == 0 and c.alias_out_max == 0 and not c.mark
    keep_alive = p.keep_alive
    if limits.server_keep_alive_s and p.version == V5:
        keep_alive = limits.server_keep_alive_s
    c.keep_alive_ms = keep_alive * 10 * limits.keepalive_percent  # s * 1000 / 100


def settle_path(core: Core, c: Client, s: Session, p: Connect) -> None:
    choose(core, c, s, p.username)
    if core.engine.on:
        outer.came(core, s, p)


def connack(core: Core, c: Client, p: Connect, present: bool, assigned: str, expiry_s: int) -> Connack:
    if c.version != V5:
        return Connack(present, 0)
    limits = core.limits
    asked = p.properties.session_expiry_interval if p.properties is not None else -1
    out = Properties()
    if expiry_s != max(asked, 0):
        out.session_expiry_interval = expiry_s
    out.receive_maximum = limits.receive_maximum
    out.maximum_packet_size = limits.max_packet_bytes
    out.topic_alias_maximum = limits.max_topic_alias
    if assigned:
        out.assigned_client_identifier = assigned
    if limits.server_keep_alive_s:
        out.server_keep_alive = limits.server_keep_alive_s
    out.user_properties = [OFFERS_DELAYED]
    return Connack(present, 0, out)


def connacked(core: Core, c: Client, data: bytes, now: i64) -> None:
    """The CONNACK leaves; what was in flight goes out again, then what waits."""
    s = c.session
    if c.closed or c.closing or s is None or s.client is not c:
        return
    core.ledger.connections += 1
    core.send(c, data)
    go_on(core, c, s, now)


def go_on(core: Core, c: Client, s: Session, now: i64) -> None:
    """The session has a connection again."""
    c.connected = True
    c.heard = now
    c.behind0 = zero_waits(s)
    c.set_quick()
    core.unblock(c)
    for packet_id, d in s.inflight.items():
        b = d.backlog
        waits = b is not None and b.session is s and not d.held  # its turn comes with the queue
        if d.state == RELEASED or (d.state == SENT and not waits):
            s.resend.append(packet_id)
    pump(core, s, now)
    pump_groups(core, s, now)
    feed(core, s, now)


def on_disconnect(core: Core, c: Client, s: Session, p: Disconnect, now: i64) -> None:
    properties = p.properties
    if properties is not None and properties.session_expiry_interval >= 0:
        asked = properties.session_expiry_interval
        if s.expiry_s == 0 and asked > 0:
            raise ProtocolError("session expiry cannot be raised from 0")  # [MQTT-3.1.2-23]
        s.expiry_s = max(min(asked, core.limits.max_session_expiry_s), s.min_expiry_s)
        if s.min_expiry_s == 0 and asked == 0:
            s.expiry_s = 0
    c.closing = True
    core.touch(c)
    detach(core, c, s, p.reason == 0, now)


def disconnect(core: Core, c: Client, reason: int, now: i64) -> None:
    """The server ends a connection: v5 is told why."""
    if c.closing or c.closed:
        return
    if c.version == V5 and c.connected:
        core.send(c, encode(Disconnect(reason if c.remote is None else to_server(reason)), V5))
    c.closing = True
    c.set_quick()
    core.touch(c)
    s = c.session
    if s is not None:
        detach(core, c, s, False, now)


def to_server(reason: int) -> int:
    """What a client may say of it; the will is to be published in any case."""
    return reason if reason in FROM_CLIENT else DISCONNECT_WITH_WILL_MESSAGE


def detach(core: Core, c: Client, s: Session, clean: bool, now: i64) -> None:
    """The session has no connection any more."""
    c.session = None
    if core.flush is not None:
        core.flush.forget(c)
    if s.client is not c:
        return
    s.client = None
    if s.overtakes:
        overtake(core, s, False)
    if c.seen is not None:
        c.seen.left(s.matched, now)
    if c.nodes:
        nodes_left(core, c, clean, now)
    s.used = 0
    s.resend.clear()
    for d in s.inflight.values():
        d.counted = False
    if s.outer is not None:
        outer.left(core, s)
    if s.backlog is not None:
        if core.hold:
            harvest(core, s.sid)
        for b in s.backlogs():
            unload(core, b)
    connection_ended(core, s, clean, now)
    if s.expiry_s == 0:
        end_session(core, s, now)
        return
    for g in s.groups:
        regroup(core, g, now)
    if s.expiry_s != NEVER:
        s.deadline = now + s.expiry_s * 1000
        core.timer(s.deadline, SESSION_TIMER, s.sid)
    core.session_row(s, s.deadline)
    core.lazy(now)


def end_session(core: Core, s: Session, now: i64) -> None:
    """The session is over: subscriptions go, what waited for it is dropped and counted."""
    session_ended(core, s, now)
    if s.outer is not None:
        outer.ended(core, s)
    s.fresh = []
    if core.parked:
        core.retry = True  # its full queue may have held publishers back
    for filter in s.subscriptions:
        if filter not in core.groups:
            core.trie.remove(filter, s.sid)
    groups = list(s.groups)
    for g in groups:
        g.members.remove(s)
        g.options.pop(s.sid, None)
    hand_over(core, s, now)
    for g in groups:
        leave(core, s, g, now)
    core.sessions.pop(s.client_id, None)
    core.by_sid.pop(s.sid, None)
    core.apps.bounded.pop(s, False)
    core.apps.paced.pop(s, False)
    core.apps.drains.pop(s, None)
    b = s.backlog
    if b is not None:
        for queue in s.backlogs():
            end(core, queue, SESSION_END, now)
        core.commit.sessions.pop(s.sid, None)
        for key in [k for k in core.commit.subscriptions if k[0] == s.sid]:
            del core.commit.subscriptions[key]
        core.commit.gone.extend([s.sid, *sids(s)])
        core.lazy(now)
    else:
        n = len([d for d in s.inflight.values() if d.state <= SENT])
        for d in in_memory(s):
            if d.group is None or d.qos:
                n += 1
            else:
                core.ledger.drop(d.group.sid, QOS0_OFFLINE, 1)
        if n:
            core.ledger.drop(s.sid, SESSION_END, n)
    for sid in [s.sid, *sids(s)]:
        core.ledger.forget(sid)
    core.queued(s, -s.queue_bytes)
    s.let_go()


def session_due(core: Core, sid: int, now: i64) -> None:
    s = core.by_sid.get(sid)
    if s is None or s.client is not None or s.deadline == 0:
        return
    if s.deadline > now:
        core.timer(s.deadline, SESSION_TIMER, s.sid)
        return
    core.log.append(f"session of {s.client_id} has expired")
    end_session(core, s, now)
