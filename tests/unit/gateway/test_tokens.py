"""Tokens: made once, kept as hashes, taken back."""

import stat
from pathlib import Path

import pytest

from gateway.tokens import OPERATOR, READ_ONLY, Holder, TokenError, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "data" / "tokens")


def test_made_known_and_revoked(tokens: Tokens) -> None:
    first, second = tokens.make("ann", OPERATOR), tokens.make("monitor", READ_ONLY)
    assert first != second
    assert len(first) > 40
    assert tokens.holders() == [Holder("ann", OPERATOR), Holder("monitor", READ_ONLY)]
    for fresh in (tokens, Tokens(tokens.path)):
        assert fresh.holder(first) == ("ann", "operator")
        assert fresh.holder(second) == ("monitor", "read-only")
        for wrong in ("", "x", first[:-1], first + "x", first.swapcase(), "\udcff"):
            assert fresh.holder(wrong) is None
    tokens.revoke("ann")
    assert tokens.holder(first) is None
    assert tokens.holder(second) is not None


def test_only_hashes_are_kept_and_only_the_owner_reads_them(tokens: Tokens) -> None:
    token = tokens.make("ann", OPERATOR)
    kept = tokens.path.read_text()
    assert token not in kept
    assert token.removeprefix("forebay-") not in kept
    assert tokens.holder(kept.strip().rpartition(":")[2]) is None, "a hash is no token"
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600


def test_another_process_changes_the_file(tokens: Tokens) -> None:
    other = Tokens(tokens.path)
    token = other.make("ann", READ_ONLY)
    assert tokens.holder(token) is None
    tokens.refresh()
    assert tokens.holder(token) is not None
    other.revoke("ann")
    tokens.refresh()
    assert tokens.holder(token) is None
    token = other.make("ann", READ_ONLY)
    tokens.refresh()
    tokens.path.unlink()
    tokens.path.mkdir()
    tokens.refresh()
    assert tokens.holder(token) is None, "what cannot be read lets nobody in"


@pytest.mark.parametrize(("name", "role"), [("", OPERATOR), ("a:b", OPERATOR), ("#a", OPERATOR), ("a\n", OPERATOR)])
def test_bad_names(tokens: Tokens, name: str, role: str) -> None:
    with pytest.raises(TokenError, match="expected a name"):
        tokens.make(name, role)


def test_what_cannot_be_done(tokens: Tokens) -> None:
    with pytest.raises(TokenError, match="expected one of read-only, operator"):
        tokens.make("ann", "root")
    tokens.make("ann", OPERATOR)
    with pytest.raises(TokenError, match=r'there is a token "ann" already'):
        tokens.make("ann", READ_ONLY)
    with pytest.raises(TokenError, match=r'no token "bob"'):
        tokens.revoke("bob")
    tokens.path.unlink()
    tokens.path.mkdir()
    with pytest.raises(TokenError, match="cannot be read"):
        Tokens(tokens.path)


def test_damaged_lines_let_nobody_in_and_the_others_hold(tokens: Tokens) -> None:
    token = tokens.make("ann", OPERATOR)
    line = tokens.path.read_text()
    hashed = line.strip().rpartition(":")[2]
    bad = ["bob", "bob:root:" + hashed, "bob:operator:short", "bob:operator:" + "g" * 64]
    tokens.path.write_text("# ours\n\n" + line + line + "".join(text + "\n" for text in bad))
    fresh = Tokens(tokens.path)
    assert fresh.holders() == [Holder("ann", OPERATOR)]
    assert fresh.holder(token) is not None
    assert [text.partition("line ")[2].partition(":")[0] for text in fresh.damage] == ["4", "5", "6", "7", "8"]
    assert hashed not in str(fresh.damage)
