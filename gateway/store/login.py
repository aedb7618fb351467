"""What proves to the servers of an engine who this gateway is, as its files are now."""

import base64
import binascii
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, final

from gateway.store.engine import EngineRefused

_SEED_BYTES: Final = 32
_PREFIX_BYTES: Final = 2
_SUM_BYTES: Final = 2


class Login(NamedTuple):
    """``token`` and ``sign``: of a .creds file; a challenge is answered with its signature, base64."""

    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | None = None
    token: str = ""
    sign: Callable[[str], bytes] | None = None


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """Called for each connection, so that what was renewed counts from the next one on."""

    user: str = ""
    password: Path | None = None
    creds: Path | None = None
    tls: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def __call__(self) -> Login:
        """Raises EngineRefused."""
        with _named("nats.creds", self.creds) as creds:
            token, sign = ("", None) if creds is None else _credentials(creds.read_text())
        with _named("engine_password_file", self.password) as file:
            password = "" if file is None else file.read_text().strip()
        return Login(self.user, password, self._tls() if self.tls else None, token, sign)

    def _tls(self) -> ssl.SSLContext:
        with _named("engine_ca", self.ca) as ca:
            context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        with _named("engine_cert", self.cert) as cert:
            if cert is not None:
                context.load_cert_chain(cert, self.key)
        return context


@contextmanager
def _named(key: str, path: Path | None) -> Iterator[Path | None]:
    """What is wrong with a file, with its setting."""
    try:
        yield path
    except UnicodeDecodeError as e:
        raise EngineRefused(f'application_log.{key} = "{path}": not UTF-8 at byte {e.start}') from None
    except (OSError, ValueError, ImportError) as e:  # ssl.SSLError is an OSError
        raise EngineRefused(f'application_log.{key} = "{path}": {getattr(e, "strerror", None) or e}') from e


def _credentials(text: str) -> tuple[str, Callable[[str], bytes]]:
    """The token in a .creds file of NATS, and what signs by its seed (an Ed25519 key). Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    token = _between(text, "NATS USER JWT")
    seed = _between(text, "USER NKEY SEED")
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except binascii.Error:
        raw = b""
    if len(raw) != _PREFIX_BYTES + _SEED_BYTES + _SUM_BYTES:
        raise ValueError("its seed is none: expected a .creds file of NATS")
    key = Ed25519PrivateKey.from_private_bytes(raw[_PREFIX_BYTES:-_SUM_BYTES])
    return token, lambda challenge: base64.b64encode(key.sign(challenge.encode()))


def _between(text: str, name: str) -> str:
    found = re.search(rf"-BEGIN {name}-+\s+(\S+)\s+-+END ", text)
    if found is None:
        raise ValueError(f"no {name} in it: expected a .creds file of NATS")
    return found[1]
