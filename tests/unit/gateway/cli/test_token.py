"""``forebay token``."""

import json
from pathlib import Path

from gateway.tokens import Tokens
from tests.command import Forebay


def test_made_listed_revoked(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    code, out, err = forebay("token", "add", "ann", "--role", "operator", *data)
    assert code == 0
    assert "http.listen_tls" in err
    holder = Tokens(tmp_path / "data" / "tokens").holder(out.strip())
    assert holder == ("ann", "operator")
    assert forebay("token", "add", "monitor", *data).code == 0
    assert forebay("token", "list", *data).out == "ann (operator)\nmonitor (read-only)\n"
    shown = forebay("token", "list", "--json", *data)
    assert json.loads(shown.out)[0] == {"name": "ann", "role": "operator"}
    assert out.strip() not in shown.out
    assert forebay("token", "revoke", "ann", *data) == (0, "ann: revoked\n", "")
    assert forebay("token", "list", *data).out == "monitor (read-only)\n"


def test_what_cannot_be_done_is_one_line(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    for command in (("revoke", "ann"), ("add", "ann", "--role", "root"), ("add", "a:b")):
        code, out, err = forebay("token", *command, *data)
        assert (code, out) == (1, ""), command
        assert err.startswith("forebay: ") and err.count("\n") == 1
    (tmp_path / "data" / "tokens").write_text("rubbish\n")
    code, out, err = forebay("token", "list", *data)
    assert (code, out) == (0, "")
    assert "line 1: not NAME:ROLE:HASH" in err
