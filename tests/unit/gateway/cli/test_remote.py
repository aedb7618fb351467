"""``forebay --url``: the commands against a gateway behind HTTPS, as another machine would run them."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from gateway.cli.remote import COMMANDS
from gateway.tokens import OPERATOR, READ_ONLY, Tokens
from tests.command import Forebay, Result
from tests.harness import Broker, beside_env, free_port
from tests.page import Page
from tests.wire import Wire


class Far(NamedTuple):
    """A gateway, and what another machine has of it."""

    broker: Broker
    url: str
    ca: Path
    config: Path
    tokens: dict[str, Path]

    def at(self, role: str) -> list[str]:
        return ["--url", self.url, "--token-file", str(self.tokens[role]), "--ca", str(self.ca)]


def kept(path: Path, token: str) -> Path:
    path.touch(0o600)
    path.write_text(token + "\n")
    return path


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    folder = tmp_path_factory.mktemp("far")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "cert.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    port = free_port()
    config = folder / "forebay.toml"
    config.write_text(f'[tls]\ncert = "{folder / "cert.pem"}"\nkey = "{folder / "cert.pem"}"\n')
    tokens = Tokens(folder / "data" / "tokens")
    files = {role: kept(folder / role, tokens.make(role, role)) for role in (READ_ONLY, OPERATOR)}
    files["foreign"] = kept(folder / "foreign", Tokens(folder / "other").make("x", OPERATOR))
    with Broker(folder / "data", {"http.listen_tls": f"127.0.0.1:{port}"}, arguments=("-c", str(config))) as broker:
        trust = ssl.create_default_context(cafile=folder / "ca.pem")
        Page(port, trust, "localhost").wait()
        with Wire.connect(broker.port, "s1", clean=False) as wire:
            wire.subscribe("t/#", qos=1)
        with Wire.connect(broker.port, "pub") as wire:
            wire.publish_done("t/1", b"x", qos=1)
        yield Far(broker, f"https://localhost:{port}", folder / "ca.pem", config, files)
        for file in files.values():
            assert file.read_text().strip() not in broker.log()


def test_the_commands_as_processes(far: Far) -> None:
    """Nothing of the token stands in the list of processes, since it is read from a file."""

    def forebay(*words: str) -> Result:
        line = [sys.executable, "-m", "gateway", *words]
        done = subprocess.run(line, capture_output=True, text=True, env=beside_env(), check=False, timeout=60)
        return Result(done.returncode, done.stdout, done.stderr)

    reader, operator = far.at(READ_ONLY), far.at(OPERATOR)
    assert json.loads(forebay(*reader, "status", "--json").out)["queue"]["messages"] == 1
    code, out, err = forebay(*reader, "queue", "drop", "s1", "--yes")
    assert (code, out) == (1, "")
    assert err.endswith("the token read-only is read-only: discard needs one of an operator\n")
    assert forebay(*operator, "queue", "drop", "s1", "--yes").out == "s1: 1 messages dropped\n"
    assert "by the token operator from 127.0.0.1" in far.broker.log()


def test_each_command_of_the_list(far: Far, forebay: Forebay) -> None:
    reader, operator = far.at(READ_ONLY), far.at(OPERATOR)
    assert "sessions" in forebay(*reader, "status").out
    assert forebay(*reader, "doctor", "--json").code in (0, 1, 4)
    assert "s1" in forebay(*reader, "sessions", "list").out
    assert json.loads(forebay(*reader, "sessions", "show", "s1", "--json").out)["client_id"] == "s1"
    assert json.loads(forebay(*reader, "uplink", "list", "--json").out) == []
    assert json.loads(forebay(*reader, "sparkplug", "nodes", "--json").out) == []
    assert json.loads(forebay(*reader, "user", "bans", "--json").out) == []
    assert "https://localhost" in forebay(*reader, "sessions", "show", "nobody").err
    for words, said in (
        (("uplink", "pause", "u"), "no uplink"),
        (("uplink", "resume", "u"), "no uplink"),
        (("uplink", "drain", "u"), "no uplink u"),
        (("sparkplug", "rebirth", "G/E"), "G/E"),
        (("sessions", "remove", "nobody"), "no session of nobody"),
    ):
        code, out, err = forebay(*operator, *words)
        assert (code, out) == (1, ""), words
        assert said in err and err.count("\n") == 1


def test_settings_are_read_and_changed_over_there(far: Far, forebay: Forebay) -> None:
    reader, operator = far.at(READ_ONLY), far.at(OPERATOR)
    assert forebay(*reader, "config", "get", "mqtt.max_inflight").out != "50\n"
    assert forebay(*reader, "config", "set", "mqtt.max_inflight=50").code == 1
    assert forebay(*operator, "config", "set", "mqtt.max_inflight=50", "--dry-run").out.endswith("+max_inflight = 50\n")
    code, out, _ = forebay(*operator, "config", "set", "mqtt.max_inflight=50")
    assert code == 0
    assert out.endswith(f"{far.config}: written and in force\n")
    assert forebay(*reader, "config", "show", "mqtt.max_inflight").out == "mqtt.max_inflight = 50\n"
    assert forebay(*reader, "config", "get", "mqtt.max_inflight").out == "50\n"
    assert "max_inflight = 50" in far.config.read_text()
    assert "restart needed" in forebay(*operator, "config", "set", "durability=os").out
    assert forebay(*operator, "config", "unset", "mqtt.max_inflight", "durability").code == 0
    assert "max_inflight" not in far.config.read_text()
    assert forebay(*reader, "config", "get", "mqtt.max_inflight", "--set", "a=1").code == 2
    assert forebay(*reader, "config", "show", "--set", "a=1").code == 2


@pytest.mark.parametrize(
    "words",
    [
        *(("run",), ("backup", "x"), ("restore", "x"), ("pub", "t", "x"), ("sub", "t"), ("config", "check")),
        *(("user", "add", "x"), ("token", "list"), ("cert", "list"), ("queue", "peek", "s1"), ("acl", "list")),
    ],
)
def test_what_is_for_the_machine_itself_does_nothing_here(far: Far, forebay: Forebay, words: tuple[str, ...]) -> None:
    code, out, err = forebay(*far.at(OPERATOR), *words)
    assert (code, out) == (2, "")
    assert "is for the machine itself; over HTTPS go status, doctor" in err


def test_the_list_names_commands(forebay: Forebay) -> None:
    for command in COMMANDS:
        assert forebay(*command.split(), "--help").code == 0


def test_only_the_pinned_authority_and_the_right_token(far: Far, forebay: Forebay, tmp_path: Path) -> None:
    other = trustme.CA()
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    token = ["--token-file", str(far.tokens[READ_ONLY])]
    for ca in (["--ca", str(tmp_path / "other.pem")], []):
        code, out, err = forebay("--url", far.url, *token, *ca, "status")
        assert (code, out) == (3, "")
        assert "certificate" in err and err.count("\n") == 1
    code, _, err = forebay("--url", far.url.replace("localhost", "127.0.0.1"), *token, "--ca", str(far.ca), "status")
    assert code == 3, "the certificate is for another name"
    code, _, err = forebay(*far.at("foreign"), "status")
    assert code == 1
    assert "the token is not known here, or was revoked" in err


def test_nobody_there(far: Far, forebay: Forebay) -> None:
    words = ["--url", f"https://localhost:{free_port()}", "--token-file", str(far.tokens[OPERATOR])]
    code, out, err = forebay(*words, "status")
    assert (code, out) == (3, "")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--url", "http://localhost:1"), "expected https://HOST:PORT"),
        (("--url", "localhost:1"), "expected https://HOST:PORT"),
        (("--url", "https://localhost:x"), "expected https://HOST:PORT"),
        (("--url", "https://user:secret@localhost"), "expected https://HOST:PORT"),
        (("--url", "https://localhost:1/page"), "expected https://HOST:PORT"),
        (("--url", "https://localhost:1"), "expected --token-file FILE as well"),
        (("--url", "https://localhost:1", "--token-file", "none"), "none: cannot be read"),
        (("--url", "https://localhost:1", "--token-file", "empty"), "expected a token on its first line"),
        (("--url", "https://localhost:1", "--token-file", "open"), "others can read it too: expected mode 600"),
        (("--url", "https://localhost:1", "--token-file", "good", "--ca", "none"), "--ca: TLS CA none"),
        (("--token-file", "good"), "expected --url"),
        (("--ca", "none"), "expected --url"),
    ],
)
def test_bad_usage_is_one_line(forebay: Forebay, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    kept(tmp_path / "empty", "")
    kept(tmp_path / "good", "forebay-x")
    kept(tmp_path / "open", "forebay-x")
    os.chmod(tmp_path / "open", 0o644)
    code, out, err = forebay(*words, "status")
    assert (code, out) == (2, "")
    assert said in err and err.count("\n") == 1
    assert "secret" not in err or "https://user" in err
