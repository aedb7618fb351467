"""The one-time setup code: the password of the user ``setup``, shown on the console until somebody has a user.

There is no password that all gateways share, and none that outlives its purpose.
"""

import contextlib
import secrets
from pathlib import Path
from typing import Final

from gateway.access import Access
from gateway.auth import Passwords
from gateway.replacing import replace

USER: Final = "setup"
ROLE: Final = "operator"
_LETTERS: Final = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # none that look alike
_GROUPS: Final = 3
_GROUP_CHARS: Final = 4


def make_code() -> str:
    """About 59 bits, to be read off a screen."""
    words = ["".join(secrets.choice(_LETTERS) for _ in range(_GROUP_CHARS)) for _ in range(_GROUPS)]
    return "-".join(words)


def is_needed(passwords: Passwords, access: Access) -> bool:
    """Whether nobody but ``setup`` could operate the gateway."""
    return not any(access.roles.get(name) == ROLE for name in passwords.names() if name != USER)


def offer(kept: Path, passwords: Passwords, access: Access) -> str:
    """The code, made when there is none yet; "" when it is not needed, and then it is no longer valid.

    Raises OSError, AuthError and AccessError.
    """
    code = read(kept)
    if not is_needed(passwords, access):
        withdraw(kept, passwords, access)
        return ""
    if code and USER in passwords.names():
        return code
    code = make_code()
    with access.change():
        access.roles[USER] = ROLE
    passwords.add(USER, code.encode())
    replace(kept, code.encode())
    return code


def withdraw(kept: Path, passwords: Passwords, access: Access) -> bool:
    """Nobody comes in by it any more; whether there was one."""
    found = USER in passwords.names() and kept.exists()
    if found:
        passwords.remove(USER)
        with access.change():
            access.roles.pop(USER, None)
    kept.unlink(missing_ok=True)
    return found


def read(kept: Path) -> str:
    """The code that is offered; "" for none."""
    with contextlib.suppress(OSError):
        return kept.read_text()
    return ""
