"""``forebay cert``."""

import json
from pathlib import Path

from tests.command import Forebay


def test_an_authority_from_start_to_end(forebay: Forebay, tmp_path: Path) -> None:
    code, out, _ = forebay("cert", "init", "--name", "Plant")
    assert code == 0
    assert out == 'tls.client_ca = "var/ca/ca.crt"\ntls.crl = "var/ca/ca.crl"\n'
    code, out, _ = forebay("cert", "issue", "gateway", "--server", "--host", "localhost", "--host", "127.0.0.1")
    assert (code, out) == (0, 'tls.cert = "var/ca/issued/gateway.crt"\ntls.key = "var/ca/issued/gateway.key"\n')
    assert forebay("cert", "issue", "plc-1", "--days", "30").out == (
        "certificate var/ca/issued/plc-1.crt, key var/ca/issued/plc-1.key\n"
    )
    assert forebay("cert", "renew", "gateway").out.startswith("tls.cert = ")
    assert forebay("cert", "revoke", "plc-1").out == "plc-1: 1 certificate revoked\n"
    rows = json.loads(forebay("cert", "list", "--json").out)
    assert [(row["name"], row["server"], bool(row["revoked"])) for row in rows] == [
        ("gateway", True, False),
        ("plc-1", False, True),
        ("gateway", True, False),
    ]
    table = forebay("cert", "list").out
    assert "localhost, 127.0.0.1" in table
    assert "revoked " in table
    settings = [f"tls.cert={tmp_path}/var/ca/issued/gateway.crt", f"tls.key={tmp_path}/var/ca/issued/gateway.key"]
    settings += [f"tls.client_ca={tmp_path}/var/ca/ca.crt", f"tls.crl={tmp_path}/var/ca/ca.crl"]
    options = [part for setting in [*settings, "listeners.mtls=127.0.0.1:0"] for part in ("--set", setting)]
    assert forebay("config", "check", *options).code == 0


def test_what_cannot_be_done_is_one_line(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("cert", "issue", "plc-1") == (
        1,
        "",
        "forebay: var/ca: holds no authority (forebay cert init)\n",
    )
    assert forebay("cert", "init", "--dir", "here").code == 0
    assert (tmp_path / "here" / "ca.key").exists()
    assert forebay("cert", "init", "--dir", "here").err == "forebay: here: holds an authority already\n"
    assert forebay("cert", "issue", "../x", "--dir", "here").code == 1
    assert forebay("cert", "issue", "x", "--days", "0", "--dir", "here").code == 2
