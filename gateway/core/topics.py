"""Topic names and filters: the checks, ``$share``, subscriptions and the trie that finds them."""

from typing import Final, final

SHARE: Final = "$share"


@final
class Subscription:
    """One topic filter of one session (or of one shared group) with its options [MQTT-3.8.3.1].

    ``filter`` is plain: a ``$share/group/`` prefix has been split off. ``identifier`` 0 = none.
    """

    def __init__(
        self,
        sid: int,
        filter: str,
        qos: int,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        identifier: int = 0,
    ) -> None:
        self.sid = sid
        self.filter = filter
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling
        self.identifier = identifier

    @property
    def options(self) -> int:
        """The subscription options as the byte of a SUBSCRIBE (5.0, 3.8.3.1)."""
        flags = (4 if self.no_local else 0) | (8 if self.retain_as_published else 0)
        return self.qos | flags | self.retain_handling << 4

    @staticmethod
    def from_row(sid: int, filter: str, options: int, identifier: int) -> "Subscription":
        """The subscription of a stored row; the inverse of ``options``."""
        return Subscription(sid, filter, options & 3, options & 4 != 0, options & 8 != 0, options >> 4 & 3, identifier)


def check_filter(filter: str, max_levels: int) -> bool:
    """Whether a plain filter is well formed and has at most ``max_levels`` levels (0 = no limit).

    [MQTT-4.7.1-1] ``#`` is a whole level and the last, [MQTT-4.7.1-2] ``+`` is a whole level,
    [MQTT-4.7.3-1] at least one character, [MQTT-4.7.3-2] no U+0000.
    """
    if not filter or "\0" in filter or not check_name_levels(filter, max_levels):
        return False
    hashes = filter.count("#")
    if hashes and (hashes > 1 or not (filter == "#" or filter.endswith("/#"))):
        return False
    if "+" in filter:
        for level in filter.split("/"):
            if "+" in level and level != "+":
                return False
    return True


def split_share(filter: str) -> tuple[str, str]:
    """``$share/group/filter`` as (group, filter); any other filter as ("", filter).

    Raises ValueError where the group or the filter is missing or the group holds a wildcard
    [MQTT-4.8.2-1] [MQTT-4.8.2-2]. The filter that comes out is for check_filter to judge.
    """
    if filter != SHARE and not filter.startswith("$share/"):
        return "", filter
    parts = filter.split("/", 2)
    if len(parts) < 3 or not parts[1] or not parts[2]:
        raise ValueError("a shared subscription needs a group and a filter")
    group = parts[1]
    if "+" in group or "#" in group:
        raise ValueError("a share name holds no wildcard")
    return group, parts[2]


def check_name_levels(topic: str, max_levels: int) -> bool:
    """Whether a topic has at most ``max_levels`` levels (0 = no limit)."""
    return max_levels == 0 or topic.count("/") < max_levels


def matches(filter: str, topic: str) -> bool:
    """Whether a well-formed plain filter matches a topic name [MQTT-4.7.1-2] [MQTT-4.7.1-3] [MQTT-4.7.2-1]."""
    if topic.startswith("$") and filter.startswith(("+", "#")):
        return False
    wanted = filter.split("/")
    levels = topic.split("/")
    count = len(levels)
    i = 0
    for want in wanted:
        if want == "#":
            return True
        if i == count or (want != "+" and want != levels[i]):
            return False
        i += 1
    return i == count


@final
class _Node:
    """One level of the filters with wildcards."""

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.plus: _Node | None = None
        self.here: dict[int, Subscription] = {}  # filters that end here, by sid
        self.rest: dict[int, Subscription] = {}  # filters with "#" as the next level, by sid

    def empty(self) -> bool:
        return not self.children and self.plus is None and not self.here and not self.rest


@final
class Trie:
    """All subscriptions, found by topic name.

    Filters without wildcards are found by one look-up; only the others are nodes. Filters must have
    passed check_filter. ``generation`` grows at each change, so that who keeps a result of ``match``
    can tell whether it still holds.
    """

    def __init__(self) -> None:
        self.generation: int = 0
        self._count: int = 0
        self._exact: dict[str, dict[int, Subscription]] = {}
        self._root: _Node = _Node()

    def __len__(self) -> int:
        return self._count

    def nodes(self) -> int:
        """How many nodes are held, the root and those without wildcards included; walks all of them."""
        count = len(self._exact)
        open_nodes = [self._root]
        while open_nodes:
            node = open_nodes.pop()
            count += 1
            open_nodes.extend(node.children.values())
            if node.plus is not None:
                open_nodes.append(node.plus)
        return count

    def add(self, sub: Subscription) -> Subscription | None:
        """Takes a subscription in; the one that it replaces (same filter and sid) comes back [MQTT-3.8.4-3]."""
        filter = sub.filter
        if "+" in filter or "#" in filter:
            place = self._make_place(filter)
        else:
            found = self._exact.get(filter)
            if found is None:
                found = {}
                self._exact[filter] = found
            place = found
        old = place.get(sub.sid)
        place[sub.sid] = sub
        if old is None:
            self._count += 1
        self.generation += 1
        return old

    def _make_place(self, filter: str) -> dict[int, Subscription]:
        node = self._root
        for level in filter.split("/"):
            if level == "#":
                return node.rest
            child = node.plus if level == "+" else node.children.get(level)
            if child is None:
                child = _Node()
                if level == "+":
                    node.plus = child
                else:
                    node.children[level] = child
            node = child
        return node.here

    def remove(self, filter: str, sid: int) -> Subscription | None:
        """Takes a subscription out; None if there was none [MQTT-3.10.4-1]."""
        if "+" in filter or "#" in filter:
            old = self._remove_wild(filter, sid)
        else:
            place = self._exact.get(filter)
            if place is None:
                return None
            old = place.pop(sid, None)
            if not place:
                del self._exact[filter]
        if old is not None:
            self._count -= 1
            self.generation += 1
        return old

    def _remove_wild(self, filter: str, sid: int) -> Subscription | None:
        levels = filter.split("/")
        path = [self._root]
        for level in levels:
            if level == "#":
                break
            node = path[-1]
            child = node.plus if level == "+" else node.children.get(level)
            if child is None:
                return None
            path.append(child)
        last = path[-1]
        old = last.rest.pop(sid, None) if levels[-1] == "#" else last.here.pop(sid, None)
        depth = len(path) - 1
        while depth > 0 and path[depth].empty():
            depth -= 1
            level = levels[depth]
            if level == "+":
                path[depth].plus = None
            else:
                del path[depth].children[level]
            path.pop()
        return old

    def match(self, topic: str) -> list[Subscription]:
        """All subscriptions whose filter matches; a session with overlapping filters appears once for each."""
        out: list[Subscription] = []
        exact = self._exact.get(topic)
        if exact is not None:
            out.extend(exact.values())
        root = self._root
        if root.empty():
            return out
        levels = topic.split("/")
        if not topic.startswith("$"):
            _walk(root, levels, out)
            return out
        # a wildcard at the first level does not see these topics [MQTT-4.7.2-1]
        child = root.children.get(levels.pop(0))
        if child is not None:
            _walk(child, levels, out)
        return out


def _walk(node: _Node, levels: list[str], out: list[Subscription]) -> None:
    """Adds what the levels find from a node on; level by level, all nodes of a level together."""
    front = [node]
    for level in levels:
        ahead: list[_Node] = []
        for node in front:
            if node.rest:
                out.extend(node.rest.values())
            if node.plus is not None:
                ahead.append(node.plus)
            child = node.children.get(level)
            if child is not None:
                ahead.append(child)
        if not ahead:
            return
        front = ahead
    for node in front:
        out.extend(node.here.values())
        out.extend(node.rest.values())  # "a/#" matches "a", too
