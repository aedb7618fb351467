"""Dialled connections: the handshake with its roles reversed, and what only a client does.

Once the remote has accepted, the connection carries the uplink's session as any other carries a client's.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core import paths
from gateway.core.anew import begin_anew
from gateway.core.delivery import reserve_ids
from gateway.core.lifecycle import detach, disconnect, go_on
from gateway.core.model import APPLICATION, Client, Session
from gateway.core.origin import ORIGIN
from gateway.core.ranks import overtake
from gateway.core.refusal import resume, thrown_out
from gateway.core.remote import Remote
from gateway.core.state import Core
from gateway.core.uplink import CONNECTED, DENIED, FORGOTTEN, LOST, REFUSED, SESSION_PREFIX, Event, Login, Uplink
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode, encode_publish
from gateway.mqtt.errors import ProtocolError
from gateway.mqtt.packets import (
    CONNACK,
    DISCONNECT,
    PINGRESP,
    SUBACK,
    UNSUBACK,
    V5,
    Connack,
    Connect,
    Disconnect,
    Filter,
    Packet,
    Properties,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from gateway.mqtt.reasons import (
    KEEP_ALIVE_TIMEOUT,
    PACKET_TOO_LARGE,
    QOS_NOT_SUPPORTED,
    SESSION_TAKEN_OVER,
    reason_name,
)

RETURN_CODES: Final = [
    "accepted",
    "unacceptable protocol version",
    "identifier rejected",
    "server unavailable",
    "bad user name or password",
    "not authorized",
]  # of a CONNACK of 3.1.1
PING_SHARE: Final = 500  # thousandths of the keep alive after which a PINGREQ leaves


def dial(core: Core, link: object, peer: str, s: Session, login: Login, now: i64) -> Client:
    """A transport is open: send the CONNECT. Another connection of this uplink ends."""
    uplink = s.uplink
    assert uplink is not None
    uplinks = core.uplinks
    before = uplinks.calls.get(uplink.name)
    if before is not None:
        hang_up(core, before, "dialled again", SESSION_TAKEN_OVER, now)
    opened: int = now
    c = Client(link, peer, core.limits.max_packet_bytes, opened)
    c.decoder = Decoder(core.limits.max_packet_bytes, login.version)
    c.decoder.passes_over = login.version != V5  # 3.1.1 cannot be told of the limit, and sends again what is refused
    c.version = login.version
    c.remote = Remote(login, uplink.rules, uplinks.origin, uplinks.hops_max)
    c.simple = False
    c.connect = connect(core, s, uplink, login)
    core.clients[c] = True
    uplinks.calls[uplink.name] = c
    core.send(c, encode(c.connect, login.version))
    return c


def connect(core: Core, s: Session, uplink: Uplink, login: Login) -> Connect:
    """Its session is to go on; but one of before another broker was in use may hold ids of QoS 2 that come again."""
    clean = s.user not in ("", login.remote) and bool([rule for rule in uplink.out_rules() if rule.qos == 2])
    properties: Properties | None = None
    if login.version == V5:
        properties = Properties()
        properties.session_expiry_interval = login.session_expiry_s
        properties.receive_maximum = core.limits.receive_maximum
        properties.maximum_packet_size = core.limits.max_packet_bytes
        properties.topic_alias_maximum = core.limits.max_topic_alias
        properties.user_properties = [(ORIGIN, core.uplinks.origin)]
    will = Will(login.status_topic.encode(), b"0", 1, True) if login.status_topic else None
    return Connect(
        login.version, login.client_id, clean, login.keep_alive_s, login.username, login.password, will, properties
    )


def on_first(core: Core, c: Client, remote: Remote, p: Packet, now: i64) -> None:
    """What the remote says to the CONNECT. Raises PacketError."""
    if p.type != CONNACK:
        raise ProtocolError("the first packet of a server is CONNACK")
    assert isinstance(p, Connack)
    name = remote.login.uplink
    if p.reason:
        text = reason_name(p.reason) if c.version == V5 else RETURN_CODES[p.reason]
        refuse(core, c, p.reason, text)
        return
    s = core.sessions.get(SESSION_PREFIX + name)
    if s is None or s.uplink is None:
        hang_up(core, c, "no such uplink any more", 0, now)
        return
    if not takes(core, c, s, remote, p):
        refuse(core, c, QOS_NOT_SUPPORTED, "the remote takes QoS 0 only")
        return
    attach(core, c, s, remote, p.session_present, now)
    event = Event(name, CONNECTED)
    event.present = p.session_present
    core.uplinks.events.append(event)
    ask(core, c, s, remote)
    if s.client_id not in core.uplinks.careful:
        tell(core, c, remote)
    go_on(core, c, s, now)


def takes(core: Core, c: Client, s: Session, remote: Remote, p: Connack) -> bool:
    """What the remote allows, within our own limits; False when it cannot keep what the rules promise."""
    uplink = s.uplink
    assert uplink is not None
    properties = p.properties if p.properties is not None else Properties()
    most = properties.receive_maximum if properties.receive_maximum > 0 else 65_535
    remote.window = min(most, uplink.window or core.limits.max_inflight)
    c.window = remote.window
    c.max_packet = max(properties.maximum_packet_size, 0)
    remote.retains = uplink.retain and properties.retain_available != 0
    if properties.maximum_qos >= 0:
        remote.qos_max = properties.maximum_qos
    keep_alive = remote.login.keep_alive_s
    if properties.server_keep_alive >= 0:
        keep_alive = properties.server_keep_alive
    remote.keep_alive_ms = keep_alive * 1000
    c.keep_alive_ms = keep_alive * 1500
    return remote.qos_max > 0 or not [rule for rule in uplink.out_rules() if rule.qos]


def attach(core: Core, c: Client, s: Session, remote: Remote, present: bool, now: i64) -> None:
    """The session goes on over this connection; at a broker that does not know it, it begins anew."""
    remote.present = present and s.user == remote.login.remote
    if not remote.present:
        begin_anew(core, s)
    if s.user != remote.login.remote:
        s.user = remote.login.remote
        core.dirty_session(s)
        core.lazy(now)
    s.client = c
    s.version = c.version
    c.session = s
    if s.client_id in core.uplinks.careful:
        c.window = 1
    overtake(core, s, True)
    reserve_ids(core, s, now)
    c.path = APPLICATION
    paths.settle(core, c)
    remote.pinged = now


def ask(core: Core, c: Client, s: Session, remote: Remote) -> None:
    """SUBSCRIBE to what the "in" rules name, and to the heartbeat, which is to come back here."""
    uplink = s.uplink
    assert uplink is not None
    handling = 1 if remote.present else 0  # retained messages again where the remote is new
    filters = [Filter(rule.there, rule.qos, True, True, handling) for rule in uplink.in_rules()]
    if remote.login.beat_topic:
        filters.append(Filter(remote.login.beat_topic, 0, False, False, 2))
    if c.version != V5:
        filters = [Filter(f.filter, f.qos) for f in filters]
    if filters:
        subscribe(core, c, s, remote, filters)


def subscribe(core: Core, c: Client, s: Session, remote: Remote, filters: list[Filter]) -> None:
    """One SUBSCRIBE, or several where the remote takes none so large."""
    packet_id = free_id(s, remote)
    data = encode(Subscribe(packet_id, filters), c.version)
    if c.max_packet == 0 or len(data) <= c.max_packet:
        remote.asked[packet_id] = [f.filter for f in filters]
        core.send(c, data)
    elif len(filters) == 1:
        core.uplinks.events.append(Event(remote.login.uplink, DENIED, PACKET_TOO_LARGE, filters[0].filter))
    else:
        half = len(filters) // 2
        subscribe(core, c, s, remote, filters[:half])
        subscribe(core, c, s, remote, filters[half:])


def unsubscribe(core: Core, c: Client, s: Session, remote: Remote, filters: list[str]) -> None:
    """What no rule names any more; the same in as many packets. FORGOTTEN follows when all are answered."""
    packet_id = free_id(s, remote)
    data = encode(Unsubscribe(packet_id, filters), c.version)
    if c.max_packet == 0 or len(data) <= c.max_packet:
        remote.forgetting[packet_id] = True
        core.send(c, data)
    elif len(filters) > 1:
        half = len(filters) // 2
        unsubscribe(core, c, s, remote, filters[:half])
        unsubscribe(core, c, s, remote, filters[half:])


def free_id(s: Session, remote: Remote) -> int:
    """A packet id far from those that PUBLISHes get meanwhile."""
    packet_id: int = (s.next_id + 32_768) % 65_535 + 1
    while packet_id in s.inflight or packet_id in remote.asked or packet_id in remote.forgetting:
        packet_id = packet_id % 65_535 + 1
    return packet_id


def on_other(core: Core, c: Client, s: Session, remote: Remote, p: Packet, now: i64) -> None:
    """A packet that only servers send. Raises PacketError for one that they must not."""
    if p.type == PINGRESP:
        return
    if p.type == UNSUBACK:
        assert isinstance(p, Unsuback)
        if remote.forgetting.pop(p.packet_id, False) and not remote.forgetting:
            core.uplinks.events.append(Event(remote.login.uplink, FORGOTTEN))
        return
    if p.type == SUBACK:
        assert isinstance(p, Suback)
        filters = remote.asked.pop(p.packet_id, [])
        if len(p.reasons) != len(filters):
            raise ProtocolError("SUBACK does not answer the SUBSCRIBE")
        for filter, reason in zip(filters, p.reasons, strict=True):
            if reason >= 0x80:
                core.uplinks.events.append(Event(remote.login.uplink, DENIED, reason, filter))
    elif p.type == DISCONNECT and c.version == V5:
        assert isinstance(p, Disconnect)
        remote.code = p.reason
        remote.last_word = reason_name(p.reason)
        thrown_out(core, s, p.reason)
        c.closing = True
        core.touch(c)
        detach(core, c, s, False, now)
    else:
        raise ProtocolError("a server must not send this packet")


def refuse(core: Core, c: Client, code: int, text: str) -> None:
    remote = c.remote
    assert remote is not None
    remote.refused = True
    core.uplinks.events.append(Event(remote.login.uplink, REFUSED, code, text))
    c.closing = True
    core.touch(c)


def hang_up(core: Core, c: Client, text: str, reason: int, now: i64) -> None:
    """End a dialled connection; ``text`` says why."""
    remote = c.remote
    assert remote is not None
    if not remote.last_word:
        remote.last_word = text
    disconnect(core, c, reason, now)


def closed(core: Core, c: Client, remote: Remote) -> None:
    """The socket is gone."""
    name = remote.login.uplink
    if core.uplinks.calls.get(name) is c:
        del core.uplinks.calls[name]
    if not remote.refused:
        text = remote.last_word or "the remote has closed the connection"
        core.uplinks.events.append(Event(name, LOST, remote.code, text))


def tell(core: Core, c: Client, remote: Remote) -> None:
    """The status topic there says that it is connected."""
    if remote.login.status_topic:
        topic = remote.login.status_topic.encode()
        core.send(c, encode_publish(c.version, topic, b"1", 0, True, False, 0, b""))


def beat(core: Core, c: Client, remote: Remote, data: bytes) -> None:
    s = c.session
    if s is not None and s.client_id in core.uplinks.careful:
        return
    topic = remote.login.beat_topic.encode()
    core.send(c, encode_publish(c.version, topic, data, 0, False, False, 0, b""))


def check(core: Core, now: i64) -> None:
    """Once a second: PINGREQs, handshakes that take too long, pauses that are over."""
    late: i64 = core.limits.connect_timeout_ms
    for c in list(core.uplinks.calls.values()):
        remote = c.remote
        s = c.session
        if remote is None or c.closing:
            continue
        if s is None:
            if now - c.opened > late:
                hang_up(core, c, "no answer to the CONNECT", KEEP_ALIVE_TIMEOUT, now)
            continue
        if remote.keep_alive_ms and (now - remote.pinged) * 1000 >= remote.keep_alive_ms * PING_SHARE:
            remote.pinged = now
            core.send(c, b"\xc0\x00")
        if (remote.until and now >= remote.until) or (c.window == 1 and careful_no_more(core, s)):
            resume(core, s, c, remote, now)


def careful_no_more(core: Core, s: Session) -> bool:
    """All that was in flight when the remote ended a connection because of one message has gone through."""
    most = core.uplinks.careful.get(s.client_id)
    if most is None or s.settled < most:
        return False
    del core.uplinks.careful[s.client_id]
    c = s.client
    if c is not None and c.remote is not None:
        tell(core, c, c.remote)
    return True
