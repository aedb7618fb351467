"""Secrets of every kind, planted where they belong; then nothing that a gateway says of itself may hold one."""

import base64
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.auth import Passwords
from gateway.certificates import Authority
from gateway.store.clock import read_clocks
from gateway.tokens import OPERATOR, Tokens
from gateway.web import app
from tests import wire_format as mqtt
from tests.harness import Broker, beside_env, free_port
from tests.page import Page, basic, wait_for
from tests.wire import Wire

# passwords and the like, each unique; none of these texts is anywhere but where it is planted
USER = "planted-user-8c1f"
WRONG = "planted-wrong-41d7"
UPLINK = "planted-uplink-77aa"
UPLINK_FILE = "planted-uplink-file-b29c"
PAGE_WRONG = "planted-page-wrong-0e52"
BASIC_WRONG = "planted-basic-wrong-93ff"
TOKEN_WRONG = "planted-token-wrong-5d10"
BAD_FILE = "planted-bad-file-6ba4"
OLD = "planted-old-27c8"
NEXT = "planted-next-f03e"
ENVIRONMENT = "planted-environment-c7d1"
PLANTED = (*(USER, WRONG, UPLINK, UPLINK_FILE, PAGE_WRONG, BASIC_WRONG, TOKEN_WRONG, BAD_FILE, OLD, NEXT, ENVIRONMENT),)


class Planted(NamedTuple):
    broker: Broker
    page: Page
    config: Path
    secrets: dict[str, str]
    url: list[str]


def config_text(folder: Path, password: str) -> str:
    return f"""
log.level = "debug"
[tls]
cert = "{folder / "ca" / "issued" / "gateway.crt"}"
key = "{folder / "ca" / "issued" / "gateway.key"}"
[[uplink]]
name = "inline"
addresses = ["mqtt://127.0.0.1:{free_port()}"]
user = "gateway"
password = "{password}"
rules = [{{ direction = "out", filter = "out/#" }}]
[[uplink]]
name = "file"
addresses = ["mqtt://127.0.0.1:{free_port()}"]
user = "gateway"
password_file = "{folder / "uplink.password"}"
rules = [{{ direction = "in", filter = "in/#" }}]
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    folder = tmp_path_factory.mktemp("secrets")
    data = folder / "data"
    authority = Authority(folder / "ca", read_clocks().wall_ms)
    authority.create("Plant")
    authority.issue("gateway", server=True, hosts=["localhost", "127.0.0.1"])
    authority.issue("plc-1")
    Passwords(data / "passwd").add("anna", USER.encode())
    (data / "access.toml").write_text('[roles]\nanna = "operator"\n')
    token = Tokens(data / "tokens").make("anna", OPERATOR)
    for name, text in (("uplink.password", UPLINK_FILE), ("token", token), ("token.wrong", TOKEN_WRONG)):
        (folder / name).touch(0o600)
        (folder / name).write_text(text + "\n")
    config = folder / "forebay.toml"
    config.write_text(config_text(folder, UPLINK))
    http, https = free_port(), free_port()
    listeners = {"http.listen": f"127.0.0.1:{http}", "http.listen_tls": f"127.0.0.1:{https}", "http.login": "always"}
    listeners |= {"allow_anonymous": "false", "log.format": "json"}
    env = {"FOREBAY_PASSWORD": ENVIRONMENT}
    with Broker(data, listeners, arguments=("-c", str(config)), env=env) as broker:
        page = Page(http).wait()
        secrets = {text: text for text in PLANTED}
        secrets |= {"token": token, "hash of the token": (data / "tokens").read_text().strip().rpartition(":")[2]}
        secrets |= {"hash of the password": (data / "passwd").read_text().strip().partition(":")[2]}
        for path in folder.rglob("*.key"):
            if path.name == "web.key":
                secrets["web.key"] = base64.b64encode(path.read_bytes()).decode()[:40]
            else:
                secrets[path.name] = path.read_text().splitlines()[1]
        url = ["--url", f"https://localhost:{https}", "--ca", str(authority.certificate)]
        yield Planted(broker, page, config, secrets, [*url, "--token-file", str(folder / "token")])


def forebay(*words: str) -> str:
    """What the command says, on both outputs."""
    line = [sys.executable, "-m", "gateway", *words]
    env = {**beside_env(), "FOREBAY_PASSWORD": ENVIRONMENT}
    done = subprocess.run(line, capture_output=True, text=True, env=env, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    assert "No such" not in done.stderr, done.stderr  # a command or option that is none would say nothing
    return done.stdout + done.stderr


def clean(planted: Planted, what: str, told: str, known: tuple[str, ...] = ()) -> None:
    assert told, what
    found = [name for name, secret in planted.secrets.items() if secret in told and name not in known]
    assert not found, (what, found)


def failures(planted: Planted) -> None:
    """Each way in, with a secret that is wrong."""
    with Wire.open(planted.broker.port, 5) as wire:
        wire.send(mqtt.connect("leaky", 5, username="anna", password=WRONG))
        assert wire.expect(mqtt.CONNACK)["code"] == 0x86
    page = planted.page
    token = page.get("/login").text.partition('name="token" value="')[2].partition('"')[0]
    assert page.post("/login", token=token, user="anna", password=PAGE_WRONG).status == 401
    assert page.get("/metrics", headers=basic("anna", BASIC_WRONG)).status == 401
    wrong = [*planted.url[:-1], planted.url[-1] + ".wrong"]
    assert "token is not known" in forebay(*wrong, "status")
    assert page.post("/login", token=token, user="anna", password=USER).status == 303
    with Wire.connect(planted.broker.port, "good", username="anna", password=USER) as wire:
        wire.publish_done("out/1", b"x", qos=1)


def test_nothing_that_it_says_of_itself_holds_a_secret(planted: Planted, tmp_path: Path) -> None:
    broker, page, config = planted.broker, planted.page, planted.config
    failures(planted)
    local = ("--data-dir", str(broker.data_dir))
    both = ("-c", str(config), *local)
    commands: list[tuple[str, ...]] = [
        *(("status", *local), ("status", "--json", *local), ("sessions", "list", "--json", *local)),
        *(("sessions", "show", "$uplink/inline", *local), ("doctor", *both), ("doctor", "--json", *both)),
        *(("user", "list", "--json", *local), ("user", "bans", "--json", *local), ("token", "list", "--json", *local)),
        *(("acl", "list", "--json", *local), ("cert", "list", "--dir", str(config.parent / "ca"))),
        *(("config", "show", *both), ("config", "check", *both), ("config", "diff", "--json", *both)),
        *(("config", "get", "uplink", *both), ("config", "set", "sys_interval=5", "-c", str(config))),
        *(("config", "history", "-c", str(config)), ("config", "rollback", "-c", str(config))),
        *(("uplink", "list", "--json", *local), ("uplink", "test", "inline", *both), ("uplink", "test", "file", *both)),
        *(("backup", str(tmp_path / "copy"), *both), ("backup", str(tmp_path / "copy"), "--verify", "--json", *both)),
        *(
            (*planted.url, "status", "--json"),
            (*planted.url, "config", "show"),
            (*planted.url, "config", "get", "uplink"),
        ),
        *((*planted.url, "config", "set", "sys_interval=6", "--dry-run"), (*planted.url, "uplink", "list", "--json")),
    ]
    for words in commands:
        clean(planted, " ".join(words), forebay(*words))
    for path in addresses():
        answer = page.get(path)
        assert answer.status in (200, 303, 404, 405, 409), path
        clean(planted, path, answer.text + str(answer.headers.items()) or path)
    assert "127.0.0.1" in page.get("/settings").text, "it is the page, not the login"
    with Wire.connect(broker.port, "sys", 5, username="anna", password=USER) as wire:
        wire.subscribe("$SYS/#", qos=0)
        wire.publish("$SYS/none", b"", 0)
        wire.ping()
        clean(planted, "$SYS", repr(wire.waiting))
    clean(planted, "the log", broker.log())


def addresses() -> list[str]:
    """Of every page, with what it needs to show something."""
    found: list[str] = re.findall(r'Route\("([^"]+)"', Path(str(app.__file__)).read_text())
    assert len(found) > 15
    ids = {"/session": "$uplink/inline", "/session/end": "$uplink/inline", "/node": "g/e"}
    shown = [path + (f"?id={urllib.parse.quote(ids[path])}" if path in ids else "") for path in found]
    return [*(path for path in shown if path not in ("/live", "/api/control")), "/nothing"]


def test_a_settings_file_that_is_changed_is_shown_without_its_passwords(planted: Planted) -> None:
    config, broker = planted.config, planted.broker
    local = ("--data-dir", str(broker.data_dir))
    text = config.read_text()
    config.write_text(config_text(config.parent, OLD))
    broker.hangup()
    wait_for(lambda: broker.log().count("reloaded") == 1, "a reload")
    for words in (("config", "set", "sys_interval=7"), ("config", "unset", "sys_interval")):
        clean(planted, " ".join(words), forebay(*words, "-c", str(config)))
    rows = f'[{{name = "inline", addresses = ["mqtt://127.0.0.1"], rules = [], password = "{NEXT}"}}]'
    for change in (f"uplink={rows}", rows):
        clean(planted, "config set uplink=", forebay("config", "set", change, "-c", str(config)))
    config.write_text(text)
    clean(planted, "rollback", forebay("config", "rollback", "-c", str(config)))
    broken = (
        f'password = "{BAD_FILE}"\n' + text,
        text + f'[[uplink]]\nname = "bad"\naddresses = []\npassword = "{BAD_FILE}"\n',
        text.replace(f'"{UPLINK}"', f'["{BAD_FILE}"]'),
        text.replace("[[uplink]]", f'[[uplink]]\nuser = "x"\npasswort = "{BAD_FILE}"', 1),
        text + f'password = "{BAD_FILE}\n',
        text.replace("mqtt://", f"mqtt://gateway:{BAD_FILE}@", 1),
    )
    for number, bad in enumerate(broken, 1):
        config.write_text(bad)
        broker.hangup()
        wait_for(lambda number=number: broker.log().count("everything stays as it was") == number, bad)  # type: ignore[misc]
        clean(planted, bad, forebay("config", "check", "-c", str(config), *local))
        clean(planted, bad, forebay("config", "diff", "-c", str(config), *local))
    config.write_text(text)
    clean(planted, "the log", broker.log())


def test_no_process_has_a_secret_among_its_arguments(planted: Planted) -> None:
    """Nor does the status page get one in its environment that it was not started with."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(planted.broker.data_dir).encode() in line:
            found.append(line)
    assert len(found) >= 2, "the broker and its page"
    for line in found:
        clean(planted, "ps", line.decode())


def test_what_holds_secrets_is_for_its_owner_only(planted: Planted, tmp_path: Path) -> None:
    forebay("backup", str(tmp_path / "copy"), "-c", str(planted.config), "--data-dir", str(planted.broker.data_dir))
    data = planted.broker.data_dir
    keys = [*planted.config.parent.rglob("*.key")]
    assert len(keys) >= 4
    for path in [*keys, data / "passwd", data / "tokens", tmp_path / "copy"]:
        assert path.stat().st_mode & 0o077 == 0, path
