"""Roles of users, as far as the page asks for them."""

from pathlib import Path

import pytest

from gateway.access import Access
from gateway.web.roles import Roles

FILE = '[roles]\nann = "operator"\nhistorian = "application"\nplc = "device"\n'


@pytest.mark.parametrize(
    ("user", "operates", "reads"),
    [("ann", True, True), ("historian", False, True), ("plc", False, False), ("nobody", False, False)],
)
def test_each_role(tmp_path: Path, user: str, operates: bool, reads: bool) -> None:
    (tmp_path / "access").write_text(FILE)
    roles = Roles(Access(tmp_path / "access"))
    assert (roles.operates(user), roles.reads(user)) == (operates, reads)


def test_a_change_counts_at_once_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    path, fresh = tmp_path / "access", tmp_path / "fresh"
    roles = Roles(Access(path))
    assert not roles.operates("ann")
    for text, operates in ((FILE, True), ("nonsense", True), ("", False)):
        fresh.write_text(text)
        fresh.rename(path)
        assert roles.operates("ann") is operates
