"""A remote answers a PUBLISH of an uplink with a reason code of failure (5.0).

Some say "not now": the same message is sent again after a pause, before all that follows. All others say "never".
And what we do not take from a remote.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.backlog import give_back
from gateway.core.delivery import bury
from gateway.core.ledger import REFUSED, TOO_LARGE
from gateway.core.model import SENT, Client, Delivery, Session
from gateway.core.pump import pump
from gateway.core.remote import Remote
from gateway.core.stall import must_wait
from gateway.core.state import Core
from gateway.mqtt.packets import Publish
from gateway.mqtt.reasons import (
    IMPLEMENTATION_SPECIFIC_ERROR,
    PACKET_IDENTIFIER_IN_USE,
    PACKET_TOO_LARGE,
    PAYLOAD_FORMAT_INVALID,
    QUOTA_EXCEEDED,
    RETAIN_NOT_SUPPORTED,
    TOPIC_NAME_INVALID,
    UNSPECIFIED_ERROR,
    reason_name,
)

NOT_NOW: Final = frozenset({UNSPECIFIED_ERROR, IMPLEMENTATION_SPECIFIC_ERROR, PACKET_IDENTIFIER_IN_USE, QUOTA_EXCEEDED})
# of a DISCONNECT
BAD_MESSAGE: Final = frozenset({TOPIC_NAME_INVALID, PACKET_TOO_LARGE, PAYLOAD_FORMAT_INVALID, RETAIN_NOT_SUPPORTED})
PAUSE_MS: Final = 1000  # the first one; each doubles the one before until something was taken
PAUSE_MS_MAX: Final = 60_000


def refused(core: Core, s: Session, d: Delivery, reason: int, now: i64) -> None:
    """``d`` is in flight; its packet id is free again."""
    c = s.client
    b = d.backlog
    assert b is not None  # an uplink has no queue in memory
    land(core, s, d)
    core.uplinks.count(s, reason)
    remote = c.remote if c is not None else None
    if reason in NOT_NOW:
        give_back(b, d)
        if c is not None and remote is not None:
            pause(core, s, c, remote, reason, now)
        return
    bury(core, s, d, REFUSED, reason)
    if c is not None and remote is not None and must_wait(core):
        pause(core, s, c, remote, reason, now)
    pump(core, s, now)


def thrown_out(core: Core, s: Session, code: int) -> None:
    """The remote ends the connection because of what it got: the next one sends one message at a time and nothing of
    our own, neither status nor heartbeat, and the message that this happens to there is refused for good.
    """
    if code not in BAD_MESSAGE:
        return
    flying = [d for d in s.inflight.values() if d.counted and d.state == SENT]
    alone = core.uplinks.careful.pop(s.client_id, None) is not None and len(flying) == 1
    if flying and not alone:
        core.uplinks.careful[s.client_id] = s.settled + len(flying)
    elif flying:
        core.uplinks.count(s, code)
        land(core, s, flying[0])
        bury(core, s, flying[0], REFUSED, code)


def too_large(core: Core, remote: Remote, p: Publish) -> None:
    """A message above our own limit, from a remote that cannot be told of it: refused, it would come for ever."""
    core.ledger.drop(0, TOO_LARGE, 1)
    name = remote.login.uplink
    count = core.uplinks.too_large.get(name, 0) + 1
    core.uplinks.too_large[name] = count
    if str(count).rstrip("0") == "1":  # what goes on is told ever more rarely
        core.alarms.append(
            f"uplink {name}: a message to {p.topic.decode(errors='replace')} of {p.body} bytes is larger than "
            f"mqtt.max_packet_size ({core.limits.max_packet_bytes}): dropped, the {count}. of this uplink"
        )


def land(core: Core, s: Session, d: Delivery) -> None:
    """It is in flight no longer, but not settled."""
    packet_id: int = d.packet_id
    del s.inflight[packet_id]
    if d.counted:
        d.counted = False
        s.used -= 1
    if d.qos == 2:
        core.dirty_session(s)
        core.commit.urgent = True


def pause(core: Core, s: Session, c: Client, remote: Remote, reason: int, now: i64) -> None:
    """Nothing more is sent for a while; what is on its way is waited for."""
    if remote.until:
        return
    if s.settled == remote.progress and remote.pause_ms:
        remote.pause_ms = min(2 * remote.pause_ms, PAUSE_MS_MAX)
    else:
        remote.pause_ms = PAUSE_MS
    remote.progress = s.settled
    remote.until = now + remote.pause_ms
    c.window = 0
    core.log.append(f"{s.client_id}: refused for now ({reason_name(reason)}): {remote.pause_ms} ms pause")


def resume(core: Core, s: Session, c: Client, remote: Remote, now: i64) -> None:
    """The pause is over."""
    remote.until = 0
    c.window = remote.window
    pump(core, s, now)
