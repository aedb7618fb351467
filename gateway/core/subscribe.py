"""SUBSCRIBE and UNSUBSCRIBE, shared groups coming and going, retained messages for a new subscription."""

from typing import Final

from mypy_extensions import i64

from gateway.core.acl import Rights
from gateway.core.backlog import end
from gateway.core.earliest import begin
from gateway.core.fanout import one_kept
from gateway.core.feed import add, feed, granted
from gateway.core.ledger import SESSION_END
from gateway.core.message import Message
from gateway.core.model import Backlog, Client, Group, Session, Target
from gateway.core.outer import asked
from gateway.core.pump import pump
from gateway.core.ranks import lane
from gateway.core.seen import names_each
from gateway.core.shared import pump_group, regroup
from gateway.core.state import RETAINED, Copies, Core
from gateway.core.topics import Subscription, check_filter, split_share
from gateway.mqtt.encode import encode
from gateway.mqtt.errors import ProtocolError
from gateway.mqtt.packets import V5, Filter, Suback, Subscribe, Unsuback, Unsubscribe
from gateway.mqtt.reasons import NO_SUBSCRIPTION_EXISTED, NOT_AUTHORIZED, QUOTA_EXCEEDED, TOPIC_FILTER_INVALID

TOLD_MAX: Final = 10  # filters of one client in a line of the log


def on_subscribe(core: Core, c: Client, s: Session, p: Subscribe, now: i64) -> None:
    """SUBACK leaves when the subscriptions are on disk; retained messages follow it."""
    identifier = 0
    properties = p.properties
    if properties is not None and properties.subscription_identifiers:
        identifier = properties.subscription_identifiers[0]
    known = len(s.groups)
    reasons = [subscribe(core, c.version, s, f, identifier) for f in p.filters]
    if c.seen is not None:
        most = names_each(core.seen)
        for f, reason in zip(p.filters, reasons, strict=True):
            c.seen.subscribed(f.filter, reason, most)
    suback = encode(Suback(p.packet_id, reasons), c.version)
    b = s.backlog
    if b is not None and b.history is not None and not b.history.end:
        begin(core, s, b, [sub for filter, sub in s.subscriptions.items() if filter not in core.groups])
    if s.durable:
        core.answer_later(c, suback)
        if s.fresh:
            core.wait(RETAINED, None, s, 0, b"")
    else:
        core.send(c, suback)
        send_retained(core, s, now)
    for g in s.groups[known:]:
        pump_group(core, g, now)  # what waited while no member was there


def subscribe(core: Core, version: int, s: Session, f: Filter, identifier: int) -> int:
    """One filter; returns its reason code."""
    refused = TOPIC_FILTER_INVALID if version == V5 else 0x80
    try:
        share, plain = split_share(f.filter)
    except ValueError:
        return refused
    if not check_filter(plain, core.limits.max_topic_levels):
        return refused
    if len(s.subscriptions) >= core.limits.max_subscriptions and f.filter not in s.subscriptions:
        return QUOTA_EXCEEDED if version == V5 else 0x80
    if share and f.no_local:
        raise ProtocolError("no local on a shared subscription")  # [MQTT-3.8.3-4]
    if s.rights is not None and not s.rights.may_subscribe(plain, share != ""):
        core.log.append(f"{s.client_id}: may not subscribe to {f.filter}")
        return NOT_AUTHORIZED if version == V5 else 0x80
    qos = f.qos if s.outer is None else min(f.qos, 1)  # an engine keeps no handshakes
    sub = Subscription(s.sid, f.filter, qos, f.no_local, f.retain_as_published, f.retain_handling, identifier)
    known = f.filter in s.subscriptions
    s.subscriptions[f.filter] = sub
    if share:
        join(core, s, f.filter, plain, sub)
    else:
        core.trie.add(sub)
        if f.retain_handling == 0 or (f.retain_handling == 1 and not known):
            if known:  # asked for once more before it was answered: retained messages come once for both
                s.fresh = [other for other in s.fresh if other.filter != f.filter]
            s.fresh.append(sub)
    if s.durable:
        key = (s.sid, f.filter)
        core.commit.unsubscribed.pop(key, False)
        core.commit.subscriptions[key] = (s.sid, f.filter, sub.options, identifier)
        core.commit.urgent = True
    if s.outer is not None:
        asked(core, s)
    return qos


def join(core: Core, s: Session, share: str, plain: str, sub: Subscription) -> None:
    g = core.groups.get(share)
    if g is None:
        g = new_group(core, core.next_sid, share, plain)
        core.next_sid += 1
    if s not in g.members:
        g.members.append(s)
        s.groups.append(g)
    g.options[s.sid] = sub
    if s.durable and g.backlog is None:
        b = Backlog(g.sid, core.next_seq - 1)
        b.group = g
        g.backlog = b
        core.commit.sessions[g.sid] = (g.sid, share, 1, 0, 0)
        core.dirty_backlog(b)
        enter(core, g)  # routes must see that it is kept now


def new_group(core: Core, sid: int, share: str, plain: str) -> Group:
    g = Group(sid, share, plain)
    core.groups[share] = g
    core.group_by_sid[sid] = g
    enter(core, g)
    return g


def enter(core: Core, g: Group) -> None:
    """To the trie a group is one subscriber; QoS and options are each member's own."""
    core.trie.add(Subscription(g.sid, g.filter, 2, False, True, 0, 0))


def leave(core: Core, s: Session, g: Group, now: i64) -> None:
    if s in g.members:
        g.members.remove(s)
        s.groups.remove(g)
    g.options.pop(s.sid, None)
    if g.members:
        regroup(core, g, now)
    else:
        end_group(core, g, now)


def end_group(core: Core, g: Group, now: i64) -> None:
    core.trie.remove(g.filter, g.sid)
    core.groups.pop(g.share, None)
    core.group_by_sid.pop(g.sid, None)
    b = g.backlog
    if b is not None:
        end(core, b, SESSION_END, now)
        core.commit.sessions.pop(g.sid, None)
        core.commit.gone.append(g.sid)
        core.lazy(now)
    core.ledger.forget(g.sid)


def on_unsubscribe(core: Core, c: Client, s: Session, p: Unsubscribe, now: i64) -> None:
    reasons = [0 if unsubscribe(core, s, filter, now) else NO_SUBSCRIPTION_EXISTED for filter in p.filters]
    unsuback = encode(Unsuback(p.packet_id, reasons), c.version)
    if s.durable:
        core.answer_later(c, unsuback)
    else:
        core.send(c, unsuback)


def unsubscribe(core: Core, s: Session, filter: str, now: i64) -> bool:
    sub = s.subscriptions.pop(filter, None)
    if sub is None:
        return False
    g = core.groups.get(filter)
    if g is not None:
        leave(core, s, g, now)
    else:
        core.trie.remove(filter, s.sid)
    if sub in s.fresh:
        s.fresh.remove(sub)
    if s.durable:
        key = (s.sid, filter)
        core.commit.subscriptions.pop(key, None)
        core.commit.unsubscribed[key] = True
        core.commit.urgent = True
    if s.outer is not None:
        asked(core, s)
    return True


def withdraw(core: Core, now: i64) -> None:
    """The rules have changed."""
    for s in list(core.by_sid.values()):
        if s.rights is not None:
            withdraw_from(core, s, s.rights, now)


def withdraw_from(core: Core, s: Session, rights: Rights, now: i64) -> None:
    """Subscriptions that the rules do not allow end; what is queued already stays."""
    ended: list[str] = []
    for filter in list(s.subscriptions):
        try:
            share, plain = split_share(filter)
        except ValueError:
            continue
        if not rights.may_subscribe(plain, share != "") and unsubscribe(core, s, filter, now):
            ended.append(filter)
    if ended:
        more = f" and {len(ended) - TOLD_MAX} more" if len(ended) > TOLD_MAX else ""
        told = ", ".join(ended[:TOLD_MAX])
        core.alarms.append(f"{s.client_id}: no longer allowed and ended: its subscription to {told}{more}")


def send_retained(core: Core, s: Session, now: i64) -> None:
    """To a durable session QoS > 0 goes through the log like any other; the rest waits for room on the connection."""
    fresh = s.fresh
    s.fresh = []
    for sub in fresh:
        found = core.retained.match(sub.filter)
        rights = s.rights
        if rights is not None:
            found = [one for one in found if not rights.withholds(one[0])]
        add(s, sub, copy_all(core, s, sub, found, now) if s.durable else found)
    if s.backlog is not None:
        pump(core, s, now)
    feed(core, s, now)


def copy_all(
    core: Core, s: Session, sub: Subscription, found: list[tuple[str, Message]], now: i64
) -> list[tuple[str, Message]]:
    """Into the log, but for those of QoS 0, which come back. What an earlier SUBSCRIBE has put there and was not sent
    since does for this one as well: who subscribes again and again does not fill the disk.
    """
    key = (s.sid, sub.filter)
    before = core.copies.pop(key, None)
    copies = Copies()
    low: list[tuple[str, Message]] = []
    for topic, m in found:
        if not granted(core, m, sub):
            low.append((topic, m))
        elif m.deadline == 0 or m.deadline > now:
            at: i64 = 0
            if before is not None:
                at = still_there(core, s, before, topic, m)
            if not at:
                at = through_log(core, s, sub, m)
            place: int = at
            copies.found[topic] = (m, place)
            copies.last = max(copies.last, at)
    if copies.found:
        core.copies[key] = copies
    return low


def still_there(core: Core, s: Session, before: Copies, topic: str, m: Message) -> i64:
    """The position of a copy that waits to be sent; 0 = there is none."""
    known = before.found.get(topic)
    if known is None or known[0] is not m:
        return 0
    b = s.backlog if s.ranks is None else lane(core, s, m.topic, False)
    if b is None or known[1] in b.ahead or known[1] < b.unsent(core.next_seq):
        return 0
    return known[1]


def forget_copies(core: Core) -> None:
    """Of which all were sent."""
    for key in list(core.copies):
        s = core.by_sid.get(key[0])
        if s is None or min([b.unsent(core.next_seq) for b in s.backlogs()], default=0) > core.copies[key].last:
            del core.copies[key]


def through_log(core: Core, s: Session, sub: Subscription, kept: Message) -> i64:
    m = Message(kept.topic, kept.payload, kept.qos, True, kept.props, kept.deadline)
    s.matched += 1
    t = Target(s, None, sub.qos, False, True, [sub.identifier] if sub.identifier else None)
    if s.ranks is not None:
        t.backlog = lane(core, s, m.topic, False)
    return one_kept(core, t, m)
