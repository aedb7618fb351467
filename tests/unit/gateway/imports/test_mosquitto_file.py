"""Lines of mosquitto.conf, of an acl_file and of a password_file."""

from pathlib import Path

import pytest

from gateway.imports.mosquitto_file import AclLine, read, read_acl, users_of
from gateway.imports.table import ImportFileError


def test_settings_without_comments_and_blanks(tmp_path: Path) -> None:
    found = read("# why\n\n  port 1883  \nlog_dest file /a b\npersistence\n", tmp_path)
    assert [(line.where, line.key, line.value) for line in found] == [
        ("line 3", "port", "1883"),
        ("line 4", "log_dest", "file /a b"),
        ("line 5", "persistence", ""),
    ]
    assert found[0].source == "port 1883 (line 3)"


def test_a_folder_is_not_included_from_an_included_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.conf").write_text("include_dir d\n")
    with pytest.raises(ImportFileError, match=r"a\.conf line 1: include_dir: expected in the first file only"):
        read("include_dir d\n", tmp_path)
    (tmp_path / "d" / "a.conf").write_bytes(b"\xff")
    with pytest.raises(ImportFileError, match="not UTF-8 at byte 0"):
        read("include_dir d\n", tmp_path)


def test_rules() -> None:
    text = "topic a/#\nuser Jane Doe\ntopic read b c\ntopic deny\npattern write d/%c\n"
    assert read_acl(text, "acl") == [
        AclLine("acl line 1", None, False, "readwrite", "a/#"),
        AclLine("acl line 3", "Jane Doe", False, "read", "b c"),
        AclLine("acl line 4", "Jane Doe", False, "readwrite", "deny"),
        AclLine("acl line 5", None, True, "write", "d/%c"),
    ]
    for wrong in ("user", "topic", "allow a"):
        with pytest.raises(ImportFileError, match=r"acl line 1: .*expected user NAME, topic or pattern"):
            read_acl(wrong, "acl")


def test_users() -> None:
    assert users_of("# c:d\na:$7$x\n\nb:$6$y:z\n") == ["a", "b"]
