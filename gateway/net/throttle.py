"""How often something may happen for one address; what is asked for is asked before anything costly is done."""

import ipaddress
from typing import Final, final

from gateway.core.meter import Bucket

KEYS_MAX: Final = 10_000


def host_of(peer: str) -> str:
    """The host of ``HOST:PORT`` or ``[HOST]:PORT``; "unix" for a client on a Unix socket."""
    return peer.rpartition(":")[0].strip("[]") if not peer.startswith("unix") else "unix"


def network_of(host: str) -> str:
    """What counts as one address: of IPv6 the 64 bits that a site has, since the rest is anybody's choice there."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


@final
class Throttle:
    """``count`` in ``seconds`` for each key, all at once if need be; count 0 = no limit."""

    def __init__(self, count: int, seconds: int) -> None:
        self.count, self.seconds = count, seconds
        self._buckets: dict[str, Bucket] = {}

    def is_spent(self, key: str, now: int) -> bool:
        """Whether there is no room for one more at gateway time ``now``."""
        bucket = self._buckets.get(key)
        return bucket is not None and bucket.wait(now) > 0

    def spend(self, key: str, now: int) -> None:
        """One more, be there room or not."""
        if not self.count:
            return
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            bucket = Bucket(self.count, self.seconds, now)
            if len(self._buckets) >= KEYS_MAX:
                del self._buckets[next(iter(self._buckets))]  # the one that was quiet for the longest
        if not bucket.wait(now):
            bucket.spend()
        self._buckets[key] = bucket


@final
class Failures:
    """Wrong passwords: ``per_minute`` of one user name from one address, MANY times as many from an address in all.

    So a device that has the wrong password for ever keeps out itself, not all that stand behind the same router.
    """

    MANY: Final = 5

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._of_user = Throttle(per_minute, 60)
        self._of_address = Throttle(per_minute * self.MANY, 60)

    def is_spent(self, host: str, username: str, now: int) -> bool:
        """Whether the next try is refused unseen."""
        address = network_of(host)
        return self._of_address.is_spent(address, now) or self._of_user.is_spent(f"{address} {username}", now)

    def spend(self, host: str, username: str, now: int) -> None:
        """One more was wrong."""
        address = network_of(host)
        self._of_address.spend(address, now)
        self._of_user.spend(f"{address} {username}", now)
