"""A client under watch: what it sends is seen, its acknowledgements can be kept back, its connections refused.

For a probe of how a device behaves when the link fails. A client that nobody watches pays one test for a packet.
"""

from gateway.core.answers import release_acks
from gateway.core.message import PendingAck
from gateway.core.model import Client
from gateway.core.state import Core
from gateway.core.watch import CONNECTED, REFUSED, Watch
from gateway.mqtt.packets import PUBACK, PUBREC, Connect, Packet


def watch(core: Core, w: Watch, now: int) -> None:
    """From now on; a present connection is the first."""
    core.watches.append(w)
    for c in core.clients:
        s = c.session
        if s is not None and c.connect is not None and w.fits(s.client_id, c.connect):
            attach(w, c, now)


def admitted(core: Core, c: Client, client_id: str, p: Connect, now: int) -> None:
    for w in core.watches:
        if w.fits(client_id, p):
            attach(w, c, now)


def attach(w: Watch, c: Client, now: int) -> None:
    w.client = c
    w.connection += 1
    c.watch = w
    w.note(CONNECTED, now, c.connect)


def packet(c: Client, p: Packet, now: int) -> None:
    """The driver decoded it."""
    w = c.watch
    assert isinstance(w, Watch)
    w.packet(c, p, now)


def closed(c: Client, now: int) -> None:
    w = c.watch
    assert isinstance(w, Watch)
    w.closed(c, now)


def refused(core: Core, p: Connect, now: int) -> bool:
    """Whether this CONNECT is to be let go without an answer."""
    for w in core.watches:
        if w.refuse and w.fits(p.client_id, p):
            w.note(REFUSED, now)
            return True
    return False


def withhold(c: Client) -> None:
    """Keep back the acknowledgements to what it publishes from now on: one that is never done goes before them."""
    c.acks.append(PendingAck(c, PUBACK, 0))
    c.recs.append(PendingAck(c, PUBREC, 0))


def release(core: Core, c: Client) -> None:
    """Let what was kept back go."""
    for queue in (c.acks, c.recs):
        for a in [a for a in queue if a.packet_id == 0]:
            queue.remove(a)
    release_acks(core, c)


def unwatch(core: Core, w: Watch) -> None:
    """All is as it was."""
    if w in core.watches:
        core.watches.remove(w)
    w.refuse = False
    c = w.client
    w.client = None
    if c is not None:
        c.watch = None
        if not c.closed and not c.closing:
            release(core, c)
