"""Which rules hold for a client: what it may do, and what is made of an APPLICATION's session."""

from gateway.core.acl import Rights
from gateway.core.engine import ENGINE_ID
from gateway.core.limits import UNSET, ClientRule, Limits
from gateway.core.model import Session
from gateway.core.patterns import matches
from gateway.core.state import Core
from gateway.core.uplink import DEAD_PREFIX, SESSION_PREFIX


def rule_of(limits: Limits, client_id: str, username: str | None) -> ClientRule | None:
    """The first rule that names this client; an empty pattern asks for nothing."""
    for rule in limits.client_types:
        if rule.client_id and not matches(client_id, rule.client_id):
            continue
        if rule.username and (username is None or not matches(username, rule.username)):
            continue
        return rule
    return None


def of_session(core: Core, s: Session) -> ClientRule | None:
    """The rule that makes this session an APPLICATION's, connected or not; None = it is none."""
    if s.backlog is None or not core.limits.client_types or s.client_id == ENGINE_ID:
        return None
    rule = rule_of(core.limits, s.client_id, s.user or None)
    return rule if rule is not None and rule.application else None


def rights_of(core: Core, s: Session) -> Rights | None:
    """None = it may do everything: without rules, and what the gateway itself reads with."""
    acl = core.limits.acl
    if acl is None or s.client_id.startswith(SESSION_PREFIX) or s.client_id == ENGINE_ID:
        return None
    if s.client is None and s.client_id.startswith(DEAD_PREFIX):
        return None
    return acl.of(s.user, s.client_id)


def apply(core: Core, s: Session) -> None:
    """Take over what the rules say: at CONNECT, at the start, and when settings change."""
    limits = core.limits
    uplink = s.uplink
    s.rights = rights_of(core, s)
    rule = of_session(core, s) if uplink is None else None
    s.drain_bytes = 0
    s.full_bytes = 0
    if uplink is not None:
        s.max_bytes = 0 if uplink.drop_newest else uplink.max_bytes
        s.full_bytes = uplink.max_bytes if uplink.drop_newest else 0
        s.max_age_ms = 1000 * uplink.max_age_s
        s.drain_rate = uplink.max_rate
        s.drain_bytes = uplink.max_bytes_s
    elif rule is None:
        s.max_bytes = 0
        s.max_age_ms = 0
        s.drain_rate = 0
    else:
        s.max_bytes = limits.app_max_bytes if rule.max_bytes == UNSET else rule.max_bytes
        s.max_age_ms = 1000 * (limits.app_max_age_s if rule.max_age_s == UNSET else rule.max_age_s)
        s.drain_rate = limits.app_drain_rate if rule.drain_rate == UNSET else rule.drain_rate
    s.paced = s.drain_rate > 0 or s.drain_bytes > 0
    if s.max_bytes or s.max_age_ms:
        core.apps.bounded[s] = True
    else:
        core.apps.bounded.pop(s, False)


def apply_all(core: Core) -> None:
    for s in core.by_sid.values():
        apply(core, s)


def named(core: Core, s: Session, username: str | None) -> None:
    """A client came with this user name: the rules go by it from now on."""
    name = username or ""
    if s.user != name:
        s.user = name
        if s.backlog is not None:
            core.dirty_session(s)
    apply(core, s)
