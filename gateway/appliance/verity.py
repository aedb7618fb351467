"""The hash tree over a bundle's payload, as dm-verity and RAUC define it: version 1, SHA-256, blocks of 4096 bytes.

RAUC checks a block when it is read, so a payload that somebody changed would be found out in the middle of writing a
slot. Its root hash is signed; computed here beforehand, it says whether all of the payload is as it was signed.
"""

import hashlib
from pathlib import Path
from typing import Final

_BLOCK: Final = 4096
_READ: Final = 256 * _BLOCK


def root_hash(path: Path, count: int, salt: bytes) -> bytes:
    """Over the first ``count`` bytes, whole blocks. Raises OSError, and ValueError for a file that is shorter."""
    hashes: list[bytes] = []
    salted = hashlib.sha256(salt)
    with path.open("rb") as source:
        while count > 0:
            chunk = source.read(min(_READ, count))
            if not chunk or len(chunk) % _BLOCK:
                raise ValueError(f"{path}: ends within its payload")
            count -= len(chunk)
            hashes += [_digest(salted, chunk[at : at + _BLOCK]) for at in range(0, len(chunk), _BLOCK)]
    while len(hashes) > 1:
        level = b"".join(hashes)
        hashes = [_digest(salted, level[at : at + _BLOCK].ljust(_BLOCK, b"\0")) for at in range(0, len(level), _BLOCK)]
    return hashes[0] if hashes else b""


def _digest(salted: "hashlib._Hash", block: bytes) -> bytes:
    total = salted.copy()
    total.update(block)
    return total.digest()
