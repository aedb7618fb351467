"""Operator, accounts and a user of a NATS server that lets in by signed tokens, made anew each time."""

import base64
import binascii
import json
from typing import Any, Final, final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

OPERATOR: Final = 14 << 3
ACCOUNT: Final = 0
USER: Final = 20 << 3
_SEED: Final = 18 << 3
_UNLIMITED: Final = ("subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage", "disk_storage")


@final
class Key:
    """An nkey: an Ed25519 key whose text says what it is of."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._key = Ed25519PrivateKey.generate()
        self.public = _text(bytes([kind]) + self._key.public_key().public_bytes_raw())
        self.seed = _text(bytes([_SEED | kind >> 5, (kind & 31) << 3]) + self._key.private_bytes_raw())

    def says(self, of: "Key", what: dict[str, Any]) -> str:
        """A token about another key."""
        claims = {"jti": of.public, "iat": 1_767_225_600, "iss": self.public, "sub": of.public, "name": "test"}
        claims["nats"] = {"version": 2, **what}
        signed = ".".join(
            _base64(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
        )
        return f"{signed}.{_base64(self._key.sign(signed.encode()))}"


def server_lines(operator: Key, account: Key) -> str:
    """For the configuration: who belongs to ``account`` comes in."""
    system = Key(ACCOUNT)
    limits = {"wildcards": True, **dict.fromkeys(_UNLIMITED, -1)}
    without = {"wildcards": True, **dict.fromkeys(_UNLIMITED[:-2], -1)}
    return f"""
        operator: {operator.says(operator, {"type": "operator"})}
        system_account: {system.public}
        resolver: MEMORY
        resolver_preload: {{
            {account.public}: {operator.says(account, {"type": "account", "limits": limits})}
            {system.public}: {operator.says(system, {"type": "account", "limits": without})}
        }}
    """


def credentials(account: Key) -> str:
    """A .creds file of a new user of it."""
    user = Key(USER)
    token = account.says(user, {"type": "user", "subs": -1, "data": -1, "payload": -1})
    return f"""-----BEGIN NATS USER JWT-----
{token}
------END NATS USER JWT------

************************* IMPORTANT *************************
-----BEGIN USER NKEY SEED-----
{user.seed}
------END USER NKEY SEED------
"""


def _text(raw: bytes) -> str:
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
