"""Where the broker is: ``mqtt://user:password@host:port`` and ``mqtts://``."""

import ssl
from typing import Final, NamedTuple, final
from urllib.parse import unquote, urlsplit

from gateway.consumer.source import DeclarationError
from gateway.hosts import is_host

_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}


@final
class Address(NamedTuple):
    """The parts of a URL."""

    host: str
    port: int
    username: str | None
    password: bytes | None
    tls: ssl.SSLContext | None


def address_of(url: str, password: str | None = None, tls: ssl.SSLContext | None = None) -> Address:
    """What a URL says; ``password`` and ``tls`` are for what should not stand in one. Raises DeclarationError."""
    allowed = 'expected "mqtt://[USER[:PASSWORD]@]HOST[:PORT]" or "mqtts://..."'
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DeclarationError(f'url "{_hidden(url)}": {allowed}') from None
    if (
        parts.scheme not in _PORTS
        or not parts.hostname
        or not is_host(parts.hostname)
        or parts.path not in ("", "/")
        or parts.query
    ):
        raise DeclarationError(f'url "{_hidden(url)}": {allowed}')
    username = None if parts.username is None else unquote(parts.username)
    said = password if password is not None else None if parts.password is None else unquote(parts.password)
    if said is not None and username is None:
        raise DeclarationError(f'url "{_hidden(url)}": a password needs a user name')
    if tls is None and parts.scheme == "mqtts":
        tls = ssl.create_default_context()
    secret = None if said is None else said.encode()
    return Address(parts.hostname, port or _PORTS[parts.scheme], username, secret, tls)


def _hidden(url: str) -> str:
    """Without what may be a password."""
    before, at, after = url.rpartition("@")
    scheme, slashes, user = before.partition("://")
    return f"{scheme}{slashes}{user.partition(':')[0]}{at}{after}" if at else url
