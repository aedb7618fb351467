"""``forebay update`` in the root of an appliance that is a folder, with real bundles and a real broker."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from gateway.appliance.journal import Version
from gateway.appliance.slots import TRIAL
from gateway.appliance.sources import write_index
from gateway.store.migrations import MIGRATIONS, SCHEMA
from tests.command import Forebay, Result
from tests.harness import Broker
from tests.machine_root import boots, kernel, machine_root
from tests.rauc_stand_in import put_on_path
from tests.signed import authority, bundle, needs_rauc
from tests.unit.gateway.appliance.test_sources import Handler

pytestmark = needs_rauc
NEW = Version("1.3.0", SCHEMA, MIGRATIONS[-1][1])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = machine_root(tmp_path / "root")
    authority(tmp_path / "keys")
    shutil.copy(tmp_path / "keys/ca.crt", root / "etc/rauc/keyring.pem")
    (root / "etc/forebay").mkdir()
    (root / "etc/forebay/forebay.toml").write_text(f'data_dir = "{tmp_path / "data"}"\n')
    monkeypatch.setenv("PATH", put_on_path(tmp_path / "bin", root))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, sys.path)))
    return root


def snapshot(root: Path) -> dict[str, bytes]:
    """All that an update could write, but for what only says how it went."""
    folders = [root / "boot", root / "dev"]
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def update(forebay: Forebay, root: Path, *words: str) -> Result:
    result = forebay("update", *words, "--root", str(root))
    assert result.code == 0, result.err
    return result


def refused(forebay: Forebay, root: Path, *words: str) -> str:
    before = snapshot(root)
    result = forebay("update", *words, "--root", str(root))
    assert result.code == 1
    assert result.err.startswith("forebay: ") and result.err.count("\n") == 1, result.err
    assert snapshot(root) == before
    return result.err


def test_there_and_back(forebay: Forebay, root: Path, tmp_path: Path) -> None:
    file = str(bundle(tmp_path / "forebay-1.3.0-test.raucb", tmp_path / "keys", NEW, root=b"new root"))
    assert "version 1.3.0; this system runs 1.2.0" in update(forebay, root, "check", file).out
    assert update(forebay, root, "install", file, "--reboot").out.startswith("version 1.3.0 boots next")
    assert (root / "systemctl").read_text() == "reboot\n"
    assert (root / "dev/sdx3").read_bytes().startswith(b"new root")
    assert (root / "boot/b/vmlinuz").read_bytes() == kernel("1.3.0")
    assert (root / "boot/loader/entries/b+3.conf").exists()
    (root / "boot/loader/entries/b+3.conf").rename(root / "boot/loader/entries/b+2-1.conf")
    boots(root, "b", "second")
    assert "already" not in refused(forebay, root, "install", file)
    (root / TRIAL).touch()
    with Broker(tmp_path / "data"):
        assert update(forebay, root, "confirm").err == "done: healthy\n"
    assert not (root / TRIAL).exists()
    assert "1.3.0: confirmed: healthy" in update(forebay, root, "status").out
    assert update(forebay, root, "rollback").out == "version 1.2.0 boots next\n"
    found = json.loads(update(forebay, root, "status", "--json").out)
    assert (found["boots_next"], found["slot"], found["on_trial"]) == ("a", "b", False)


def test_an_unhealthy_one_comes_back_by_itself(forebay: Forebay, root: Path, tmp_path: Path) -> None:
    file = str(bundle(tmp_path / "forebay-1.3.0-test.raucb", tmp_path / "keys", NEW))
    update(forebay, root, "install", file)
    (root / "boot/loader/entries/b+3.conf").rename(root / "boot/loader/entries/b+2-1.conf")
    boots(root, "b", "second")
    (root / TRIAL).touch()
    result = forebay("update", "confirm", "--wait", "0", "--root", str(root))
    assert result.code == 1 and result.err.startswith("leave: the broker does not run")
    assert (root / "systemctl").read_text() == "reboot\n"
    assert (root / TRIAL).exists()  # should that not come to pass, the unit that watches sees to it
    boots(root, "a", "third")
    out = update(forebay, root, "status").out
    assert "runs      1.2.0 (slot a)" in out and "next      slot a" in out
    assert "1.3.0: rolled back: the broker does not run" in out


def test_what_is_refused_before_anything_is_written(forebay: Forebay, root: Path, tmp_path: Path) -> None:
    make = partial(bundle, keys=tmp_path / "keys", version=NEW)
    alien = bundle(tmp_path / "alien.raucb", authority(tmp_path / "theirs"), NEW)
    assert "signature verification failed" in refused(forebay, root, "install", str(alien))
    tampered = make(tmp_path / "tampered.raucb", root=b"x" * 65536)
    data = tampered.read_bytes()
    tampered.write_bytes(
        data.replace(b"xxxxxxxx", b"xxxxyxxx", 1) if b"xxxxxxxx" in data else data[:300] + b"?" + data[301:]
    )
    assert "its payload is not what was signed" in refused(forebay, root, "install", str(tampered))
    board = make(tmp_path / "board.raucb", compatible="forebay-rpi")
    assert "for the board forebay-rpi, this one is forebay-test" in refused(forebay, root, "install", str(board))
    assert "none.raucb" in refused(forebay, root, "install", "none.raucb")
    (root / "run/forebay-boot.env").write_text(
        (root / "run/forebay-boot.env").read_text().replace("STATE=ok", "STATE=read-only")
    )
    good = make(tmp_path / "good.raucb")
    assert "the data partition is read-only" in refused(forebay, root, "install", str(good))
    assert "no appliance" in refused(forebay, tmp_path, "status")


def test_data_that_only_the_new_version_can_read(forebay: Forebay, root: Path, tmp_path: Path) -> None:
    raises = bundle(tmp_path / "r.raucb", tmp_path / "keys", Version("2.0.0", SCHEMA + 1, SCHEMA + 1))
    assert "--no-rollback" in refused(forebay, root, "install", str(raises))
    update(forebay, root, "install", str(raises), "--no-rollback")
    with Broker(tmp_path / "data"):
        pass
    with sqlite3.connect(tmp_path / "data/forebay.db") as database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'store.min_reader'", (SCHEMA + 1,))
    database.close()
    old = bundle(tmp_path / "old.raucb", tmp_path / "keys", NEW)
    assert "cannot read the data that are here" in refused(forebay, root, "install", str(old), "--no-rollback")


def test_an_installation_that_fails_has_a_name(forebay: Forebay, root: Path, tmp_path: Path) -> None:
    file = bundle(tmp_path / "u.raucb", tmp_path / "keys", NEW)
    (root / "stop-while-writing").touch()
    assert forebay("update", "install", str(file), "--root", str(root)).code == 1
    out = update(forebay, root, "status").out
    assert "1.3.0: not installed" in out and "nothing that boots (slot b)" in out and "pending" not in out
    (root / "stop-while-writing").unlink()
    update(forebay, root, "install", str(file))


def test_from_a_web_server(forebay: Forebay, root: Path, tmp_path: Path) -> None:
    www = tmp_path / "www"
    www.mkdir()
    file = bundle(www / "forebay-1.3.0-test.raucb", tmp_path / "keys", NEW)
    write_index(file, "forebay-test", "1.3.0")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(www))) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{web.server_port}"
        told = json.loads(update(forebay, root, "check", address, "--json").out)
        assert (told["version"], told["running"], told["same"]) == ("1.3.0", "1.2.0", False)
        assert "404" in refused(forebay, root, "install", f"{address}/none.raucb")
        update(forebay, root, "install", address)
        web.shutdown()
        thread.join()
    assert (root / "boot/loader/entries/b+3.conf").exists()
    assert not (root / "data/appliance/update/download.raucb").exists()


def test_the_program_that_rauc_calls(root: Path) -> None:
    """As RAUC calls it, each in a process of its own."""

    def backend(*words: str) -> tuple[int, str]:
        line = [sys.executable, "-m", "gateway", "update", "backend", *words, "--root", str(root)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert backend("get-primary") == (0, "a\n")
    assert backend("get-state", "a") == (0, "good\n")
    assert backend("get-state", "b") == (0, "bad\n")
    assert backend("set-primary", "b")[0] == 1  # no bundle is mounted
    assert backend("set-state", "b", "bad") == (0, "")
    assert backend("nonsense")[0] == 1
