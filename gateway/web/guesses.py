"""Wrong logins of an address: after a few it is refused unheard for a while."""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, final

FAILURES_MAX: Final = 5  # of an address, before it is refused unheard
FAILURES_S: Final = 300.0  # for so long
ADDRESSES_MAX: Final = 1000


class BusyError(Exception):
    """Too many failures from this address, or too many logins at a time; ``wait_s``: when to come again."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"too many logins, try again in {wait_s} s")
        self.wait_s = wait_s


@final
class Guesses:
    """``clock`` gives seconds and only goes forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # address -> how many, until when

    def check(self, address: str) -> None:
        """Raises BusyError where this address has to wait."""
        count, until = self._failures.get(network(address), (0, 0.0))
        now = self._clock()
        if count >= FAILURES_MAX and now < until:
            raise BusyError(int(until - now) + 1)

    def wrong(self, address: str) -> None:
        """One more; may be said before it is known, and taken back with ``right``."""
        key, now = network(address), self._clock()
        count, until = self._failures.get(key, (0, 0.0))
        self._failures[key] = (count if now < until else 0) + 1, now + FAILURES_S
        self._failures.move_to_end(key)
        while len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)

    def right(self, address: str) -> None:
        """It knows what it says: what was wrong before was a slip."""
        self._failures.pop(network(address), None)


def network(address: str) -> str:
    """What one attacker has many of counts as one: a v6 host has a whole /64."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((ip, 64), strict=False)) if isinstance(ip, IPv6Address) else address
