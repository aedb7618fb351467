"""``forebay backup`` and ``restore``, beside a gateway that serves."""

import json
import threading
from pathlib import Path

from gateway.tokens import Tokens
from tests import wire_format as mqtt
from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire


def test_a_backup_under_load_has_all_that_was_acknowledged_before(forebay: Forebay, tmp_path: Path) -> None:
    data, target = ("--data-dir", str(tmp_path / "data")), str(tmp_path / "backup")
    acknowledged, stop = [0], threading.Event()
    with Broker(tmp_path / "data") as broker:
        with Wire.connect(broker.port, "collector", clean=False) as wire:
            wire.subscribe("t", qos=1)

        def load() -> None:
            with Wire.connect(broker.port, "machine") as machine:
                while not stop.is_set():
                    machine.publish_done("t", str(acknowledged[0]).encode(), qos=1)
                    acknowledged[0] += 1

        machine = threading.Thread(target=load)
        machine.start()
        while acknowledged[0] < 200:
            stop.wait(0.01)
        before = acknowledged[0]
        result = forebay("backup", target, *data, "--json")
        after = acknowledged[0]
        stop.set()
        machine.join()
    assert result.code == 0, result.err
    assert next(iter(json.loads(result.out)["members"])) == "forebay.db"
    assert forebay("backup", target, "--verify").out.startswith(f"{target}: sound")
    new = ("--data-dir", str(tmp_path / "new"))
    assert forebay("restore", target, *new, "--data-only").code == 0
    with (
        Broker(tmp_path / "new") as broker,
        Wire.connect(broker.port, "collector", clean=False, present=1) as wire,
    ):
        with Wire.connect(broker.port, "machine") as last:
            last.publish_done("t", b"end", qos=1)
        found: list[bytes] = []
        while not found or found[-1] != b"end":
            packet = wire.expect(mqtt.PUBLISH)
            found.append(packet["payload"])
            wire.puback(packet["pid"])
    numbers = [int(payload) for payload in found[:-1]]
    assert numbers == list(range(len(numbers)))
    assert before <= len(numbers) <= after + 1


def test_refused_in_one_line(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    target = tmp_path / "backup"
    assert forebay("backup", str(target), *data).code == 1
    with Broker(tmp_path / "data"):
        assert forebay("backup", str(target), *data).code == 0
        code, _, err = forebay("restore", str(target), *data, "--replace")
        assert code == 1 and "in use by another broker" in err and err.count("\n") == 1
    code, _, err = forebay("restore", str(target), *data)
    assert code == 1 and "--replace" in err and err.count("\n") == 1
    target.write_bytes(target.read_bytes()[:5000])
    code, _, err = forebay("restore", str(target), *data, "--replace")
    assert code == 1 and str(target) in err and err.count("\n") == 1


def test_settings_and_users_come_along(forebay: Forebay, tmp_path: Path) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text(f'data_dir = "{tmp_path / "data"}"\n')
    add = ("user", "add", "someone", "--role", "device", "-c", str(config), "--password-file", "-")
    assert forebay(*add, stdin=b"secret\n").code == 0
    assert forebay("cert", "init", "-c", str(config)).code == 0
    key = (tmp_path / "data" / "ca" / "ca.key").read_bytes()
    token = forebay("token", "add", "someone", "-c", str(config)).out.strip()
    own = '{"id": "abc123", "paused": ["far"]}'
    (tmp_path / "data" / "uplinks.json").write_text(own)
    with Broker(tmp_path / "data"):
        pass
    assert forebay("backup", str(tmp_path / "backup"), "-c", str(config)).code == 0
    shown = forebay("backup", str(tmp_path / "backup"), "--verify", "--json").out
    assert "secret" not in shown and "argon2" not in shown and "PRIVATE" not in shown and token not in shown
    config.unlink()
    (tmp_path / "data" / "access.toml").unlink()
    for gone in ("ca/ca.key", "tokens", "uplinks.json"):
        (tmp_path / "data" / gone).unlink()
    assert (
        forebay("restore", str(tmp_path / "backup"), "-c", str(config), "--data-dir", str(tmp_path / "data")).code == 1
    )
    assert not config.exists(), "all of it or nothing"
    result = forebay("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "data"), "--replace")
    assert result.code == 0, result.err
    assert f"{config}: restored" in result.out
    assert forebay("user", "list", "-c", str(config)).out == "someone (device)\n"
    assert (tmp_path / "data" / "ca" / "ca.key").read_bytes() == key
    assert Tokens(tmp_path / "data" / "tokens").holder(token) == ("someone", "read-only")
    assert (tmp_path / "data" / "uplinks.json").read_text() == own, "brokers know this gateway by its id"
