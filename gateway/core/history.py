"""What a session that begins with the earliest must get of the time before it came.

Its messages are in segments that were written for others: which of them are its own follows from its filters,
as they were when it began. They have its positions like all others, so cursor and order need nothing more.
"""

from typing import final

from mypy_extensions import i64

from gateway.core.acl import Rights
from gateway.core.message import Message, Segment
from gateway.core.record import StoredTarget
from gateway.core.topics import Subscription, matches


@final
class History:
    """``end`` is the position at which it subscribed, 0 = it has not yet."""

    def __init__(self, end: i64, filters: list[Subscription]) -> None:
        self.end = end
        self.filters = filters
        self.left: list[Segment] = []  # still to be counted; none of them leaves the disk meanwhile
        self.counting: bool = False
        self.rights: Rights | None = None  # as they were then: what was counted is what is read

    def target(self, m: Message, sid: int) -> StoredTarget | None:
        """How the message goes to the session, None = not at all."""
        if m.seq >= self.end or m.single or m.qos == 0:
            return None
        topic = m.topic.decode()
        if self.rights is not None and self.rights.withholds(topic):
            return None
        qos = 0
        as_published = False
        ids: list[int] = []
        for sub in self.filters:
            if sub.qos and matches(sub.filter, topic):
                qos = max(qos, sub.qos)
                as_published = as_published or sub.retain_as_published
                if sub.identifier:
                    ids.append(sub.identifier)
        return StoredTarget(sid, qos, as_published, ids or None) if qos else None
