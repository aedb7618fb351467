"""Rate limits on what clients publish: who is too fast is read no further until there is room again.

So nothing is refused and nothing is lost, at QoS 0 neither: what is too much waits on the client's side.
"""

from mypy_extensions import i64

from gateway.core.meter import Meter
from gateway.core.model import Client, Session
from gateway.core.state import PACED, Core
from gateway.mqtt.packets import Publish


def shared_meter(core: Core, now: int) -> Meter | None:
    """Of all clients together."""
    limits = core.limits
    return Meter(limits.total_rate, None, now) if limits.total_rate_on and limits.total_rate else None


def meter(core: Core, now: int) -> Meter | None:
    """Of one client; None = no limit."""
    limits = core.limits
    if limits.client_rate_on and limits.client_rate:
        return Meter(limits.client_rate, core.door.meter, now)
    return core.door.meter


def reload(core: Core, now: int) -> None:
    """New limits; who waits under the old ones goes on at the time that these gave."""
    core.door.meter = shared_meter(core, now)
    for c in core.clients:
        if c.session is not None:
            c.meter = meter(core, now)


def may_go_on(core: Core, c: Client, s: Session, m: Meter, p: Publish, now: i64) -> bool:
    """Whether there is room for one more PUBLISH; else it is parked until there is."""
    if c.paid:
        c.paid = False  # it had to wait for something else
        return True
    wait = m.wait(now)
    if wait == 0:
        m.spend()
        return True
    if not c.slowed:
        c.slowed = True
        core.log.append(f"{s.client_id}: publishes faster than its rate limit: read more slowly")
    c.parked = p
    c.paced = True
    core.block(c)
    core.timer(now + wait, PACED, s.sid)
    return False


def due(core: Core, sid: int) -> None:
    s = core.by_sid.get(sid)
    if s is None or s.client is None:
        return
    c = s.client
    if c.paced:
        c.paced = False
        core.parked.append(c)
        core.retry = True
