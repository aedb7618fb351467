"""Disks whose sync means nothing."""

from pathlib import Path

import pytest

from gateway.synced import synced
from tests.forced import force_read_only, give_back, needs_root, read_only_by_force


@needs_root
def test_what_is_read_only_before_is_not_written_to(tmp_path: Path) -> None:
    with read_only_by_force(tmp_path), pytest.raises(OSError, match="Read-only file system"), synced(tmp_path):
        raise AssertionError("nothing is to be written")


@needs_root
def test_what_became_so_meanwhile_has_kept_nothing(tmp_path: Path) -> None:
    try:
        with pytest.raises(OSError, match="Read-only file system"), synced(tmp_path):
            force_read_only(tmp_path)
    finally:
        give_back(tmp_path)


def test_else_it_is_in_nobodys_way(tmp_path: Path) -> None:
    with synced(tmp_path):
        (tmp_path / "a").touch()
    assert (tmp_path / "a").exists()
