from pathlib import Path

import pytest

from gateway.image.plan import BuildError
from gateway.image.sources import KEYRING, Source, find, parse_deb822, parse_lines

DEB822 = """Types: deb
# a comment
URIs: http://one.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/one.gpg

Types: deb-src
URIs: http://one.example/debian
Suites: bookworm
Components: main

Types: deb
Enabled: no
URIs: http://two.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://other.example/node
Suites: nodistro
Components: main
"""


def test_deb822() -> None:
    assert list(parse_deb822(DEB822)) == [
        Source("http://one.example/debian", "bookworm", ("main", "contrib"), "/usr/share/keyrings/one.gpg"),
        Source("http://one.example/debian", "bookworm-updates", ("main", "contrib"), "/usr/share/keyrings/one.gpg"),
        Source("http://other.example/node", "nodistro", ("main",), ""),
    ]


def test_lines() -> None:
    text = (
        "deb http://one.example/debian bookworm main # all\n"
        "# deb http://two.example/debian bookworm main\n"
        "deb-src http://one.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://one.example/security bookworm-security main contrib\n"
        "deb [ arch=amd64 ] http://three.example x-bookworm main\n"
        "deb broken\n"
    )
    assert list(parse_lines(text)) == [
        Source("http://one.example/debian", "bookworm", ("main",)),
        Source("http://one.example/security", "bookworm-security", ("main", "contrib"), "/k.gpg"),
        Source("http://three.example", "x-bookworm", ("main",)),
    ]


def test_only_debians_own_are_taken_and_components_added(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/debian.sources").write_text(DEB822)
    (tmp_path / "sources.list.d/cloud.list").write_text("deb http://cloud.example cloud-bookworm main\n")
    found = find(tmp_path, ["non-free-firmware"])
    assert [source.suite for source in found] == ["bookworm", "bookworm-updates"]
    assert found[0].line() == (
        "deb [signed-by=/usr/share/keyrings/one.gpg] http://one.example/debian bookworm main contrib non-free-firmware"
    )
    assert f"[signed-by={KEYRING}]" in Source("http://one.example/debian", "bookworm", ("main",)).line()


def test_a_machine_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no source for the suite bookworm"):
        find(tmp_path)
