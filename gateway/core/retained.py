"""Retained messages: the last one of each topic, found by filter, gone when it expires."""

import heapq
from typing import final

from gateway.core.message import Message


@final
class _Level:
    """One level of the topics that hold a message."""

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.entry: _Entry | None = None


@final
class _Entry:
    def __init__(self, topic: str, order: int, message: Message) -> None:
        self.topic = topic
        self.order = order
        self.message = message


@final
class Retained:
    """At most one message for each topic [MQTT-3.3.1-5].

    ``bytes`` is the sum of the sizes of the messages held: topics, properties and payloads.
    A message with an empty payload is not for ``set``: the caller removes instead [MQTT-3.3.1-6].
    """

    def __init__(self) -> None:
        self.bytes: int = 0
        self._order: int = 0
        self._entries: dict[str, _Entry] = {}
        self._root: _Level = _Level()
        # (deadline, topic); one that no longer agrees with the message held is passed over
        self._deadlines: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def levels(self) -> int:
        """How many levels are held, the root included; walks all of them."""
        return len(self._with_all_below([self._root]))

    def deadlines(self) -> int:
        """How many deadlines are held, those that no longer count included."""
        return len(self._deadlines)

    def get(self, topic: str) -> Message | None:
        entry = self._entries.get(topic)
        return None if entry is None else entry.message

    def set(self, topic: str, message: Message) -> Message | None:
        """Keeps a message as the topic's last; the one that it replaces comes back."""
        entry = self._entries.get(topic)
        old: Message | None = None
        if entry is not None:
            old = entry.message
            self.bytes -= old.size
            entry.message = message
        else:
            self._order += 1
            entry = _Entry(topic, self._order, message)
            self._entries[topic] = entry
            level = self._root
            for name in topic.split("/"):
                below = level.children.get(name)
                if below is None:
                    below = _Level()
                    level.children[name] = below
                level = below
            level.entry = entry
        self.bytes += message.size
        if message.deadline > 0 and (old is None or old.deadline != message.deadline):
            self._push_deadline(message.deadline, topic)
        return old

    def _push_deadline(self, deadline: int, topic: str) -> None:
        heapq.heappush(self._deadlines, (deadline, topic))
        if len(self._deadlines) > 2 * len(self._entries) + 64:
            # a topic set again and again would pile up deadlines that no longer count
            self._deadlines = []
            for entry in self._entries.values():
                if entry.message.deadline > 0:
                    self._deadlines.append((entry.message.deadline, entry.topic))
            heapq.heapify(self._deadlines)

    def remove(self, topic: str) -> Message | None:
        """Lets the topic's message go; None if there was none."""
        entry = self._entries.pop(topic, None)
        if entry is None:
            return None
        self.bytes -= entry.message.size
        names = topic.split("/")
        path = [self._root]
        for name in names:
            path.append(path[-1].children[name])
        path[-1].entry = None
        depth = len(names)
        while depth > 0 and path[depth].entry is None and not path[depth].children:
            depth -= 1
            del path[depth].children[names[depth]]
            path.pop()
        return entry.message

    def match(self, filter: str) -> list[tuple[str, Message]]:
        """(topic, message) of all topics that a plain, well-formed filter matches, in the order they came up.

        One whose deadline passed since the last ``expired`` is still among them.
        """
        if "+" not in filter and "#" not in filter:
            single = self._entries.get(filter)
            return [] if single is None else [(filter, single.message)]
        out: list[tuple[str, Message]] = []
        if filter == "#":
            # the most common and the largest: no walk, and the dict has the order already
            for topic, entry in self._entries.items():
                if not topic.startswith("$"):
                    out.append((topic, entry.message))
            return out
        found: dict[int, _Entry] = {}
        for level in self._ends(filter):
            if level.entry is not None:
                found[level.entry.order] = level.entry
        for order in sorted(found):
            entry = found[order]
            out.append((entry.topic, entry.message))
        return out

    def _ends(self, filter: str) -> list[_Level]:
        """The levels that the filter leads to; with ``#`` all that lie below, too."""
        front = [self._root]
        for want in filter.split("/"):
            if want == "#":
                return self._with_all_below(front)
            ahead: list[_Level] = []
            for level in front:
                if want != "+":
                    below = level.children.get(want)
                    if below is not None:
                        ahead.append(below)
                elif level is self._root:
                    ahead.extend(self._visible())
                else:
                    ahead.extend(level.children.values())
            front = ahead
            if not front:
                break
        return front

    def _with_all_below(self, front: list[_Level]) -> list[_Level]:
        out: list[_Level] = []
        ahead = front
        while ahead:
            out.extend(ahead)
            front = ahead
            ahead = []
            for level in front:
                if level.children:
                    ahead.extend(level.children.values())
        return out

    def _visible(self) -> list[_Level]:
        """First levels that a leading wildcard sees [MQTT-4.7.2-1]."""
        return [level for name, level in self._root.children.items() if not name.startswith("$")]

    def expired(self, now_ms: int) -> list[str]:
        """Removes the messages whose deadline (gateway ms) has come and returns their topics, earliest first."""
        gone: list[str] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            deadline, topic = heapq.heappop(self._deadlines)
            entry = self._entries.get(topic)
            if entry is not None and entry.message.deadline == deadline:
                self.remove(topic)
                gone.append(topic)
        return gone
