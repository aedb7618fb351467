"""From a topic to its targets, remembered until a subscription changes."""

from typing import Final

from gateway.core.commits import pack_targets
from gateway.core.limits import Limits
from gateway.core.model import Client, Group, Route, Session, Target
from gateway.core.nodes import FORGOTTEN, Event
from gateway.core.ranks import lane
from gateway.core.remote import Remote
from gateway.core.state import Core
from gateway.core.topics import Subscription, check_name_levels
from gateway.mqtt.decode import check_topic_name
from gateway.mqtt.errors import PacketError
from gateway.mqtt.reasons import TOPIC_NAME_INVALID
from sparkplug.aware import may_publish

CACHE_MAX: Final = 100_000  # topics, for the broker
CLIENT_CACHE_MAX: Final = 10_000  # topics, for a connection
DELAYED: Final = "$delayed/"  # SECONDS/TOPIC, as EMQX has it
DELAY_S_MAX: Final = 4_294_967
CACHED_TOPIC_BYTES_MAX: Final = 256  # longer ones are looked up each time: the caches are bounded by count alone


def resolve(core: Core, c: Client, topic: bytes) -> Route:
    """The route of a topic that this connection has not used since the last change. Raises PacketError."""
    remote = c.remote
    route = known(core, topic) if remote is None else brought(core, remote, topic)
    s = c.session
    if s is not None and s.rights is not None and not s.rights.may_write(route.name):
        route = denied(core, s, route)
    if len(topic) <= CACHED_TOPIC_BYTES_MAX:
        if len(c.routes) >= CLIENT_CACHE_MAX:
            c.routes = {}
        c.routes[topic] = route
    return route


def known(core: Core, topic: bytes) -> Route:
    found = core.routes.get(topic)
    if found is not None and found.generation == core.trie.generation:
        return found
    name = check_topic_name(topic)
    before = 2 if name.startswith(DELAYED) else 0  # levels that are none of the topic that counts
    if not check_name_levels(name, core.limits.max_topic_levels + before):
        raise PacketError(TOPIC_NAME_INVALID, "too many topic levels")
    return build(core, topic, name)


def brought(core: Core, remote: Remote, topic: bytes) -> Route:
    """Where a topic of an uplink's remote leads here; a closed route where no rule brings it.

    So it is for one that has too many levels for here: a connection that ends because of it gets it again.
    """
    name = check_topic_name(topic)
    local = remote.local(name)
    if not check_name_levels(local, core.limits.max_topic_levels) or not local or name == remote.login.beat_topic:
        route = Route(topic, name, core.trie.generation)
        route.closed = True
        route.special = True
        return route
    here = local.encode()
    route = known(core, here)
    if here == topic:
        return route
    made = Route(here, local, route.generation)
    made.targets = route.targets
    made.groups = route.groups
    made.durable = route.durable
    made.key = route.key
    made.no_local = route.no_local
    made.source = route.source
    made.closed = route.closed
    made.special = True
    made.renamed = True
    return made


def denied(core: Core, s: Session, route: Route) -> Route:
    """The route of a topic for one who may not publish there: its own, since others may."""
    core.log.append(f"{s.client_id}: may not publish on {route.name}")
    own = Route(route.topic, route.name, route.generation)
    own.closed = True
    own.special = True
    return own


def route_of(core: Core, name: str) -> Route:
    """For messages of the broker's own: wills, $SYS."""
    topic = name.encode()
    found = core.routes.get(topic)
    if found is not None and found.generation == core.trie.generation:
        return found
    return build(core, topic, name)


def build(core: Core, topic: bytes, name: str) -> Route:
    if core.limits.bridge and core.nodes.crowded(name):
        forget_silent(core)
    route = Route(topic, name, core.trie.generation)
    if name.startswith(DELAYED):
        postpone(route, core.limits)
    else:
        find_targets(core, route)
    if len(topic) <= CACHED_TOPIC_BYTES_MAX:
        if len(core.routes) >= CACHE_MAX:
            core.routes = {}
        core.routes[topic] = route
    return route


def forget_silent(core: Core) -> None:
    gone = core.nodes.make_room()
    for node in gone:
        core.nodes.events.append(Event(FORGOTTEN, node, None, 0, 0, 0))
    if gone:
        core.routes = {}
        core.trie.generation += 1


def postpone(route: Route, limits: Limits) -> None:
    """What is published there goes on later: now it has no targets."""
    route.closed = True
    route.special = True
    route.delayed = True
    seconds, _, onward = route.name[len(DELAYED) :].partition("/")
    if seconds.isascii() and seconds.isdecimal() and len(seconds) <= 10 and int(seconds) <= DELAY_S_MAX:
        route.delay_s = int(seconds)
        if not onward.startswith(DELAYED):
            route.onward = onward


def find_targets(core: Core, route: Route) -> None:
    topic = route.topic
    name = route.name
    merged: dict[int, list[Subscription]] = {}
    captured = core.engine.on and core.engine.captures(name)
    for sub in core.trie.match(name):
        known = merged.get(sub.sid)
        if known is None:
            merged[sub.sid] = [sub]
        else:
            known.append(sub)
    for sid, subs in merged.items():
        session = core.by_sid.get(sid)
        if session is not None:
            if session.rights is not None and session.rights.withholds(name):
                continue
            if captured and session.outer is not None:
                continue  # it comes from the engine
            t = target(session, None, subs)
            route.targets.append(t)
            limits = core.limits
            t.kept = session.durable and (t.qos > 0 or limits.upgrade_qos or limits.mqueue_store_qos0_persistent)
            if t.kept and (session.ranks is not None or session.overtakes):
                t.backlog = lane(core, session, topic, t.qos == 0 and not limits.upgrade_qos)
            route.no_local = route.no_local or t.no_local
        else:
            group = core.group_by_sid[sid]
            t = target(None, group, subs)
            route.groups.append(t)
            t.kept = group.backlog is not None
        if t.kept:
            route.durable.append(t)
    route.key = pack_targets(route.durable)
    route.closed = is_closed(core.limits, name)
    if core.limits.bridge:
        route.source = core.nodes.source_of(name)
        if core.nodes.take_full():
            core.alarms.append("more Sparkplug nodes or topics than are followed: what they say is no longer raised")
    route.special = bool(route.groups) or core.limits.upgrade_qos or route.closed or route.source is not None


def is_closed(limits: Limits, name: str) -> bool:
    """Clients do not publish what the broker says of itself, and the births that it shows are those that came."""
    if name.startswith(DELAYED):
        return True
    ours = name.startswith("$SYS/") and not name.startswith("$SYS/broker/connection/")  # bridges say there how they are
    return ours or name == "$SYS" or not may_publish(name) or name in limits.own_topics


def target(session: Session | None, group: Group | None, subs: list[Subscription]) -> Target:
    qos = 0
    no_local = True
    as_published = False
    ids: list[int] | None = None
    for sub in subs:
        qos = max(qos, sub.qos)
        no_local = no_local and sub.no_local
        as_published = as_published or sub.retain_as_published
        if sub.identifier:
            if ids is None:
                ids = []
            ids.append(sub.identifier)
    return Target(session, group, qos, no_local, as_published, ids)
