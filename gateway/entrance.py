"""Who comes in to a broker: its listeners, users, rules and bans, as the settings and the users' files have them."""

from typing import Any, final

from gateway.access import Access
from gateway.auth import Passwords
from gateway.core.lifecycle import disconnect
from gateway.core.limits import Limits
from gateway.hashing import Hashing
from gateway.log import Log
from gateway.mqtt.reasons import BANNED
from gateway.net.admission import Admission
from gateway.net.connection import Turn
from gateway.net.flapping import Flapping
from gateway.net.listening import Contexts, Listeners
from gateway.net.throttle import Failures, host_of
from gateway.net.tls import TlsError
from gateway.settings.table import Settings


@final
class Entrance:
    """In the order: ``read``, ``open``, ``start``; ``prepare`` and ``apply`` when the settings change."""

    def __init__(self, log: Log) -> None:
        self.listeners = Listeners(log)
        self._log = log
        self._hashing = Hashing()
        self._passwords: Passwords
        self._access: Access
        self._admission: Admission
        self._turn: Turn

    def read(self, settings: Settings) -> None:
        """The users' files. Raises AuthError and AccessError."""
        self._passwords = Passwords(settings.passwords, self._hashing.verify)
        self._access = Access(settings.access_file)

    def limits(self, settings: Settings) -> Limits:
        """The core's limits, with the rules of the users' file."""
        limits = settings.limits()
        limits.acl = self._access.acl(settings.acl)
        return limits

    def open(self, turn: Turn, settings: Settings) -> None:
        """On the sockets that are bound already; what is wrong with certificate files keeps only TLS closed."""
        self._turn = turn
        self._admission = Admission(turn)
        self._admission.banned = self._is_banned
        self.listeners.open(turn, lambda host: self._is_banned(host, "", ""))
        try:
            contexts = self.listeners.read(settings)
        except TlsError as e:
            self._log.error(f"{e}; TLS listeners admit nobody until that is put right")
            contexts = {}
        self.apply(settings, contexts)

    def prepare(self, settings: Settings) -> Contexts:
        """Read all files anew. Raises TlsError, AuthError and AccessError, then everything stays as it was."""
        contexts = self.listeners.read(settings)
        self.reread()
        return contexts

    def reread(self) -> None:
        """Users, roles, rules and bans were changed. Raises AuthError and AccessError."""
        self._passwords.reload()
        self._access.reload()

    def apply(self, settings: Settings, contexts: Contexts) -> None:
        """What ``prepare`` gave, and all else, counts for the connections that come next."""
        self._admission.certificate_user = settings.tls_certificate_user
        if self._admission.failures.per_minute != settings.auth_failures_per_minute:
            self._admission.failures = Failures(settings.auth_failures_per_minute)
        rule = (
            settings.flapping_detect_max_count,
            settings.flapping_detect_window_time,
            settings.flapping_detect_ban_time,
        )
        flapping = self._admission.flapping
        if not settings.flapping_detect_enable:
            self._admission.flapping = None
        elif flapping is None or flapping.rule != rule:
            self._admission.flapping = Flapping(*rule)
        self.let_in(settings)
        self.listeners.apply(settings, settings.passwords.exists(), contexts)

    def let_in(self, settings: Settings) -> None:
        """The users as they are now; who is banned has to go."""
        self._admission.forget()
        self._admission.verify = self._passwords.verify if settings.passwords.exists() else None
        for line in self._passwords.damage + self._access.damage:
            self._log.warning(line)
        core = self._turn.router.core
        for client in list(core.clients):
            session, connect = client.session, client.connect
            if session is not None and connect is not None:
                if self._is_banned(host_of(client.peer), session.client_id, connect.username or ""):
                    self._log.info(f"{session.client_id} at {client.peer} is banned: closed")
                    disconnect(core, client, BANNED, self._turn.now())
        self._turn.touch()

    def bans(self, now: int) -> dict[str, Any]:
        """Who is banned: by the operator, until that is taken back, and for a while for coming and going too often."""
        flapping = self._admission.flapping
        return {
            "bans": [{ban.kind: ban.value} for ban in self._access.bans],
            "flapping": [] if flapping is None else flapping.bans(now),
        }

    def lift(self, client_id: str, now: int) -> bool:
        """Who comes and goes may come again; False when there is no such ban."""
        flapping = self._admission.flapping
        return flapping is not None and flapping.lift(client_id, now)

    def run(self) -> None:
        """After every turn that touched the router."""
        self._admission.run()

    def look(self, now: int) -> None:
        """From time to time: files that change."""
        self.listeners.look(now)

    def close(self) -> None:
        """Nobody comes in any more."""
        self.listeners.close()
        self._admission.close()
        self._hashing.close()

    def _is_banned(self, host: str, client_id: str, username: str) -> bool:
        return self._access.banned(host, client_id, username) is not None
