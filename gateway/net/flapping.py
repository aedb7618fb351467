"""Clients that come and go without end: each time costs what a connection costs, and one of them may be two."""

from collections import OrderedDict, deque
from typing import Final, NamedTuple, final

from gateway.net.throttle import host_of

KEYS_MAX: Final = 10_000  # clients that are watched
BANS_MAX: Final = 10_000


class Ban(NamedTuple):
    """Until when (gateway ms), and from where its last connections came: two addresses where there were two."""

    until: int
    addresses: tuple[str, ...]


@final
class _Seen:
    def __init__(self) -> None:
        self.times: deque[int] = deque()
        self.peers: tuple[str, ...] = ()  # the last of each of the last two addresses, the newest last


@final
class Flapping:
    """Who connects more than ``count`` times within ``window_ms`` is kept out for ``ban_ms``. All of it is in RAM."""

    def __init__(self, count: int, window_ms: int, ban_ms: int) -> None:
        self.rule = (count, window_ms, ban_ms)
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._bans: OrderedDict[str, Ban] = OrderedDict()

    def is_banned(self, client_id: str, now: int) -> bool:
        """At gateway time ``now``."""
        ban = self._bans.get(client_id)
        if ban is None:
            return False
        if now < ban.until:
            return True
        del self._bans[client_id]
        return False

    def came(self, client_id: str, peer: str, now: int) -> Ban | None:
        """One more connection of it; the ban that begins with it."""
        count, window_ms, ban_ms = self.rule
        seen = self._seen.pop(client_id, None) or _Seen()
        self._seen[client_id] = seen
        if len(self._seen) > KEYS_MAX:
            self._seen.popitem(last=False)  # the one that was quiet for the longest
        others = [known for known in seen.peers if host_of(known) != host_of(peer)]
        seen.peers = (*others[-1:], peer)
        times = seen.times
        while times and now - times[0] >= window_ms:
            times.popleft()
        times.append(now)
        if len(times) <= count:
            return None
        del self._seen[client_id]
        ban = self._bans[client_id] = Ban(now + ban_ms, seen.peers)
        if len(self._bans) > BANS_MAX:
            self._bans.popitem(last=False)
        return ban

    def bans(self, now: int) -> list[dict[str, object]]:
        """For ``forebay user bans``: client ids, seconds that are left, addresses."""
        return [
            {"client_id": name, "left_s": -(-(ban.until - now) // 1000), "addresses": list(ban.addresses)}
            for name, ban in self._bans.items()
            if now < ban.until
        ]

    def lift(self, client_id: str, now: int) -> bool:
        """It may come again; False when it was not kept out."""
        was = self.is_banned(client_id, now)
        self._bans.pop(client_id, None)
        return was
