"""Loss accounting: what came, what went, and what was dropped for which reason; counters only."""

from typing import Final, final

QUEUE_FULL: Final = "queue_full"
EXPIRED: Final = "expired"
QOS0_OFFLINE: Final = "qos0_offline"
TOO_LARGE: Final = "too_large"  # above the client's Maximum Packet Size
SESSION_END: Final = "session_end"
DISK: Final = "disk"
EVICTED: Final = "evicted"
SHARED_QOS2: Final = "shared_qos2"  # sent to a member that ended; nobody else may get it [MQTT-4.8.2-5]
CONGESTED: Final = "congested"  # QoS 0 while the connection had too much unsent
ACL: Final = "acl"
DISCARDED: Final = "discarded"  # by the operator
DAMAGED: Final = "damaged"  # the log could not be read there
REFUSED: Final = "refused"  # by the remote of an uplink, for good
NO_RULE: Final = "no_rule"  # of its uplink any more that covers the topic
LOOP: Final = "loop"  # it was here before, or has come through too many gateways
DELAYED: Final = "delayed"  # a $delayed/ topic that is malformed, or more than may wait there
RETENTION: Final = "retention"  # unread by an APPLICATION for longer, or more of it, than its log is to hold

DROPPED: Final = "dropped."  # what the stored name of a drop counter begins with


@final
class Ledger:
    """Counters of the broker and drops of each session.

    The int attributes count since the start and are bumped in place; ``snapshot`` adds what ``load``
    brought from before. Messages are PUBLISH packets with payload bytes, by QoS; packets and bytes
    without a QoS are everything on the wire. Drops (by session and in total) are counted over the life
    of the session, so that per session, at any time::

        matched == acknowledged + in flight + queued + dropped(sid)

    where the session itself counts all but the last. After a crash the counters are lower bounds,
    except the drops, which commit with what was dropped.
    """

    def __init__(self) -> None:
        self.bytes_received: int = 0
        self.bytes_sent: int = 0
        self.packets_received: int = 0
        self.packets_sent: int = 0
        self.received_qos0: int = 0
        self.received_qos1: int = 0
        self.received_qos2: int = 0
        self.received_bytes_qos0: int = 0
        self.received_bytes_qos1: int = 0
        self.received_bytes_qos2: int = 0
        self.sent_qos0: int = 0
        self.sent_qos1: int = 0
        self.sent_qos2: int = 0
        self.sent_bytes_qos0: int = 0
        self.sent_bytes_qos1: int = 0
        self.sent_bytes_qos2: int = 0
        self.puback_received: int = 0
        self.puback_sent: int = 0
        self.pubrec_received: int = 0
        self.pubrec_sent: int = 0
        self.pubrel_received: int = 0
        self.pubrel_sent: int = 0
        self.pubcomp_received: int = 0
        self.pubcomp_sent: int = 0
        self.connections: int = 0  # accepted CONNECTs
        self.connections_refused: int = 0
        self.takeovers: int = 0
        self.no_subscriber: int = 0  # published, matched nobody: not a drop
        self._loaded: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._drops: dict[str, int] = {}  # reason -> total
        self._session_drops: dict[int, dict[str, int]] = {}  # sid -> reason -> count
        self._changed: dict[tuple[int, str], None] = {}  # drop counters to store, in order

    def drop(self, sid: int, reason: str, n: int = 1) -> None:
        """Counts ``n`` messages of a session (sid 0: of none) as dropped."""
        self._drops[reason] = self._drops.get(reason, 0) + n
        self._changed[0, reason] = None
        if sid == 0:
            return
        drops = self._session_drops.get(sid)
        if drops is None:
            drops = {}
            self._session_drops[sid] = drops
        drops[reason] = drops.get(reason, 0) + n
        self._changed[sid, reason] = None

    def dropped(self, sid: int) -> int:
        """All drops of a session (sid 0: of the broker) so far."""
        return sum(self.drops(sid).values())

    def drops(self, sid: int) -> dict[str, int]:
        """Reason -> messages, of a session (sid 0: of the broker)."""
        if sid == 0:
            return self._drops.copy()
        drops = self._session_drops.get(sid)
        return {} if drops is None else drops.copy()

    def unaccounted(self, sid: int, matched: int, acknowledged: int, held: int) -> int:
        """Messages of a session that are nowhere: 0, or the accounting (or worse) is broken.

        ``held`` is in flight plus queued; ``matched`` and ``acknowledged`` count over the life of the session.
        """
        return matched - acknowledged - held - self.dropped(sid)

    def forget(self, sid: int) -> None:
        """The session is gone: its own counters go, the totals stay."""
        drops = self._session_drops.pop(sid, None)
        if drops is not None:
            for reason in drops:
                self._changed.pop((sid, reason), None)

    def load(self, rows: list[tuple[int, str, int]]) -> None:
        """Takes the stored counters in, once and before anything is counted; unknown names are kept."""
        for sid, name, value in rows:
            if name.startswith(DROPPED):
                drops = self._drops if sid == 0 else self._session_drops.setdefault(sid, {})
                drops[name[len(DROPPED) :]] = value
            elif sid == 0:
                self._loaded[name] = value
                self._taken[name] = value

    def has_drops(self) -> bool:
        """Some drop is not stored yet."""
        return len(self._changed) > 0

    def take_drops(self) -> list[tuple[int, str, int]]:
        """The drop counters that changed since the last take, as (sid or 0, name, absolute value)."""
        rows: list[tuple[int, str, int]] = []
        for sid, reason in self._changed:
            drops = self._drops if sid == 0 else self._session_drops[sid]
            rows.append((sid, DROPPED + reason, drops[reason]))
        self._changed = {}
        return rows

    def take_changes(self) -> list[tuple[int, str, int]]:
        """take_drops and every other counter that changed since the last take_changes."""
        rows = self.take_drops()
        for name, value in self._counters().items():
            if value != self._taken.get(name, 0):
                self._taken[name] = value
                rows.append((0, name, value))
        return rows

    def snapshot(self) -> dict[str, int]:
        """Every counter of the broker by name, drops as ``dropped.<reason>``."""
        out = self._counters()
        for reason, count in self._drops.items():
            out[DROPPED + reason] = count
        return out

    def _counters(self) -> dict[str, int]:
        out = {
            "bytes_received": self.bytes_received,
            "bytes_sent": self.bytes_sent,
            "packets_received": self.packets_received,
            "packets_sent": self.packets_sent,
            "received_qos0": self.received_qos0,
            "received_qos1": self.received_qos1,
            "received_qos2": self.received_qos2,
            "received_bytes_qos0": self.received_bytes_qos0,
            "received_bytes_qos1": self.received_bytes_qos1,
            "received_bytes_qos2": self.received_bytes_qos2,
            "sent_qos0": self.sent_qos0,
            "sent_qos1": self.sent_qos1,
            "sent_qos2": self.sent_qos2,
            "sent_bytes_qos0": self.sent_bytes_qos0,
            "sent_bytes_qos1": self.sent_bytes_qos1,
            "sent_bytes_qos2": self.sent_bytes_qos2,
            "puback_received": self.puback_received,
            "puback_sent": self.puback_sent,
            "pubrec_received": self.pubrec_received,
            "pubrec_sent": self.pubrec_sent,
            "pubrel_received": self.pubrel_received,
            "pubrel_sent": self.pubrel_sent,
            "pubcomp_received": self.pubcomp_received,
            "pubcomp_sent": self.pubcomp_sent,
            "connections": self.connections,
            "connections_refused": self.connections_refused,
            "takeovers": self.takeovers,
            "no_subscriber": self.no_subscriber,
        }
        for name, value in self._loaded.items():
            out[name] = out.get(name, 0) + value
        return out
