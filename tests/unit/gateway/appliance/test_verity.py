import hashlib
import os
from pathlib import Path

import pytest

from gateway.appliance.verity import root_hash

SALT = bytes(range(32))
BLOCK = 4096


def digest(block: bytes) -> bytes:
    return hashlib.sha256(SALT + block).digest()


def test_two_levels_by_hand(tmp_path: Path) -> None:
    """130 blocks need two blocks of hashes, and those one above them."""
    data = os.urandom(130 * BLOCK)
    (tmp_path / "file").write_bytes(data + b"what follows does not count")
    leaves = [digest(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
    level = [b"".join(leaves[:128]), b"".join(leaves[128:]).ljust(BLOCK, b"\0")]
    top = b"".join(digest(block) for block in level).ljust(BLOCK, b"\0")
    assert root_hash(tmp_path / "file", len(data), SALT) == digest(top)


def test_each_byte_counts(tmp_path: Path) -> None:
    data = bytearray(os.urandom(3 * BLOCK))
    (tmp_path / "file").write_bytes(data)
    good = root_hash(tmp_path / "file", len(data), SALT)
    for at in (0, BLOCK, len(data) - 1):
        data[at] ^= 1
        (tmp_path / "file").write_bytes(data)
        assert root_hash(tmp_path / "file", len(data), SALT) != good
        data[at] ^= 1
    with pytest.raises(ValueError, match="ends within"):
        root_hash(tmp_path / "file", len(data) + 1, SALT)
