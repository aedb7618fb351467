"""Which address an uplink dials and when, and whether its link forwards.

Decisions only: time (gateway ms) and chance (0 to 1) are arguments. The supervisor tells what happened and does what
``tick`` asks for.
"""

from typing import Final, final

# states
PAUSED: Final = "paused"
WAITING: Final = "waiting"  # for the next dial
REFUSED: Final = "refused"  # the same, but trying soon would not help
DIALLING: Final = "dialling"
CONNECTED: Final = "connected"  # a CONNACK came
FORWARDING: Final = "forwarding"  # and a heartbeat made it there and back
STALLED: Final = "stalled"  # the last one did not

# what tick() asks for
NOTHING: Final = 0
DIAL: Final = 1  # the address of the course
BEAT: Final = 2  # send the heartbeat with the number of the course
LEAVE: Final = 3  # end the connection: another address is tried
RETURN: Final = 4  # see whether the first address answers; if it does, switch over
GIVE_UP: Final = 5  # no CONNACK came: end the connection and tell by failed()

FIRST_MS: Final = 100
LAST_MS: Final = 30_000
HANDSHAKE_MS: Final = 20_000  # from an open connection to its CONNACK
REFUSED_MS: Final = 120_000
STEADY_MS: Final = 10_000  # a connection that ends sooner counts as a failed one
HOLD_OFF_FACTOR_MAX: Final = 16
FAR: Final = 2**62


def pause_ms(rounds: int, chance: float) -> int:
    """The pause after so many rounds over all addresses: 100 ms, doubled up to 30 s, and of that half to all."""
    longest = min(FIRST_MS << min(max(rounds, 1) - 1, 16), LAST_MS)
    return round(longest * (0.5 + chance / 2))


@final
class Course:
    """``due`` is the gateway ms at which ``tick`` wants to be asked again."""

    def __init__(self, addresses: int, hold_off_ms: int, heartbeat_ms: int, now: int) -> None:
        self.state = WAITING
        self.address = 0  # index of the one that is dialled or connected
        self.due = now
        self.error = ""  # why there is no link, or why it is no good; empty when it is
        self.beat = 0  # number of the last heartbeat
        self.since = now  # of the state
        self._addresses = addresses
        self._heartbeat_ms = heartbeat_ms
        self._hold_off_ms = hold_off_ms
        self._hold_off = 1  # times so long
        self._failures = 0  # since a connection was steady
        self._refusals = 0  # in a row
        self._stalls = 0  # addresses that did not forward, in a row
        self._connected_at = 0
        self._return_at = FAR
        self._beat_at = FAR  # the next one is due
        self._beat_out = False
        self._received = 0  # what had come in when the heartbeat left

    @property
    def linked(self) -> bool:
        """Whether there is a connection with a CONNACK."""
        return self.state in (CONNECTED, FORWARDING, STALLED)

    def tick(self, now: int, received: int = 0) -> int:
        """What is to be done now; ``received`` counts the messages that this connection has brought."""
        if now < self.due:
            return NOTHING
        if self.state in (WAITING, REFUSED):
            self._enter(DIALLING, now)
            self.due = FAR
            return DIAL
        if not self.linked:
            self.due = FAR
            return GIVE_UP if self.state == DIALLING else NOTHING
        action = NOTHING
        if now >= self._beat_at:
            action = self._beat(now, received)
        elif now >= self._return_at:
            self._hold_off = min(self._hold_off * 2, HOLD_OFF_FACTOR_MAX)
            self._return_at = now + self._hold_off_ms * self._hold_off
            action = RETURN
        if self.linked:
            self._plan()
        return action

    def _beat(self, now: int, received: int) -> int:
        # what came meanwhile was forwarded: then the heartbeat only stands behind it
        if self._beat_out and received == self._received:
            late = self.state != STALLED
            self._enter(STALLED, now)
            self.error = f"heartbeat {self.beat} did not come back within {self._heartbeat_ms / 1000:g} s"
            self._stalls += late
            # all of them stalled: then the round goes on at the pace of the hold-off
            if self._stalls < self._addresses or (
                self._addresses > 1 and now - self._connected_at >= self._hold_off_ms
            ):
                self._go_on(now)
                return LEAVE
        self.beat += 1
        self._beat_out = True
        self._received = received
        self._beat_at = now + self._heartbeat_ms
        return BEAT

    def beat_back(self, number: int, now: int) -> None:
        """A heartbeat came back."""
        if not self.linked or number != self.beat:
            return
        self._beat_out = False
        self._stalls = 0
        self.error = ""
        if self.state != FORWARDING:
            self._enter(FORWARDING, now)

    def beat_refused(self, error: str) -> None:
        """The broker takes no heartbeat: nothing can be said about whether it forwards."""
        self.error = error
        self._beat_at = FAR
        self._beat_out = False
        self._plan()

    def connected(self, now: int) -> None:
        """A CONNACK with success came."""
        self._enter(CONNECTED, now)
        self.error = ""
        self._connected_at = now
        self._beat_out = False
        self._beat_at = now if self._heartbeat_ms else FAR
        self._return_at = now + self._hold_off_ms * self._hold_off if self.address else FAR
        self._refusals = 0
        self._plan()

    def switched(self, address: int, now: int) -> None:
        """Another connection, to this address, takes the place of the one before; its CONNACK is still to come."""
        self.address = address
        self._enter(DIALLING, now)
        self.due = now + HANDSHAKE_MS

    def failed(self, error: str, now: int, chance: float, refused: bool = False) -> None:
        """The dial or the handshake failed; ``refused``: it will fail again until somebody changes something."""
        if self.state == PAUSED:
            return
        self.error = error
        self._failures += 1
        self._refusals = self._refusals + 1 if refused else 0
        self.address = (self.address + 1) % self._addresses
        if self._refusals >= self._addresses:
            self._enter(REFUSED, now)
            self.due = now + round(REFUSED_MS * (0.5 + chance / 2))
        elif self._failures % self._addresses:
            self._enter(WAITING, now)
            self.due = now + pause_ms(1, chance)
        else:
            self._enter(WAITING, now)
            self.due = now + pause_ms(self._failures // self._addresses, chance)

    def lost(self, error: str, now: int, chance: float) -> None:
        """The connection is gone."""
        if not self.linked:
            return self.failed(error, now, chance)
        lasted = now - self._connected_at
        if not self.address and lasted >= self._hold_off_ms:
            self._hold_off = 1
        if lasted < STEADY_MS:
            return self.failed(error, now, chance)
        self.error = error
        self._failures = 0
        self._enter(WAITING, now)
        self.due = now + pause_ms(1, chance)

    def pause(self, now: int) -> None:
        """No connection until ``resume``."""
        self._enter(PAUSED, now)
        self.error = ""
        self.due = FAR

    def resume(self, now: int) -> None:
        if self.state == PAUSED:
            self._enter(WAITING, now)
            self.due = now
            self._failures = self._refusals = self._stalls = 0

    def _go_on(self, now: int) -> None:
        """To the next address, at once."""
        self.address = (self.address + 1) % self._addresses
        self._enter(WAITING, now)
        self.due = now

    def _plan(self) -> None:
        self.due = min(self._beat_at, self._return_at)

    def _enter(self, state: str, now: int) -> None:
        self.state = state
        self.since = now
