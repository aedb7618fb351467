"""What users may do with the page, by the roles that ``forebay user`` gives them."""

import contextlib
from typing import Final, final

from gateway.access import Access, AccessError
from gateway.core.acl import APPLICATION, OPERATOR

READERS: Final = (APPLICATION, OPERATOR)  # an application may read every topic: metrics tell it nothing more


@final
class Roles:
    """The roles of one file, read again when it changes."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._read_at: tuple[int, int] | None = None

    def operates(self, user: str) -> bool:
        """May see the pages and use their forms."""
        return self._role(user) == OPERATOR

    def reads(self, user: str) -> bool:
        """May see the metrics."""
        return self._role(user) in READERS

    def _role(self, user: str) -> str:
        try:
            stat = self._access.path.stat()
            at = stat.st_mtime_ns, stat.st_ino
        except OSError:
            at = None
        if at != self._read_at:
            self._read_at = at
            with contextlib.suppress(AccessError):
                self._access.reload()
        return self._access.roles.get(user, "")
