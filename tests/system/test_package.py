"""The Debian package on a clean Debian under a real systemd: installed, sandboxed, upgraded, broken, removed, purged.

It builds the package twice and makes a Debian, minutes of work: only with FOREBAY_PACKAGE=1, or with the paths of two
packages there, versions 1.0.0 and 1.0.1, divided by a colon.
"""

import gzip
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import REPO, free_port
from tests.machine import Machine, debian, missing
from tests.system.test_supervised import FOREVER, Knocking, Queue
from tests.wire import Wire

WHY = missing() or ("" if os.environ.get("FOREBAY_PACKAGE") else "takes minutes: FOREBAY_PACKAGE=1 runs it")
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(2700)]

BUILD = REPO / "build" / "deb"
ARCHIVE = BUILD / "debian.tar"
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


def built(version: str) -> Path:
    line = ["/usr/bin/python3", str(REPO / "tools" / "deb.py"), "--version", version]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def packages() -> tuple[Path, Path]:
    given = os.environ["FOREBAY_PACKAGE"].split(":")
    if len(given) == 2:
        return Path(given[0]), Path(given[1])
    return built("1.0.0"), built("1.0.1")


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def page() -> int:
    return free_port()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A block device with a small ext4."""
    image = tmp_path_factory.mktemp("disk") / "data.img"
    with image.open("wb") as out:
        out.truncate(192 << 20)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-m", "0", str(image)], check=True)
    device = subprocess.run(
        ["losetup", "--find", "--show", str(image)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, packages: tuple[Path, Path], port: int, page: int, disk: str
) -> Iterator[Machine]:
    if not ARCHIVE.exists():
        debian(ARCHIVE)
    root = tmp_path_factory.mktemp("machine") / "root"
    root.mkdir()
    subprocess.run(["tar", "-xf", str(ARCHIVE), "-C", str(root)], check=True)
    for package in packages:
        shutil.copy(package, root / "root")
    shutil.copytree(
        REPO / "tests", root / "root" / "tests", ignore=shutil.ignore_patterns("node_modules", "__pycache__")
    )
    (root / "etc/forebay").mkdir()
    (root / "etc/forebay/forebay.toml").write_text(
        f'data_dir = "/var/lib/forebay"\nlisten = ["127.0.0.1:{port}"]\n'
        f'store.min_free_bytes = "1MiB"\n\n[http]\nlisten = ["127.0.0.1:{page}"]\n'
    )
    with Machine(root, disk) as booted:
        yield booted


def test_it_installs_and_serves(machine: Machine, packages: tuple[Path, Path], port: int) -> None:
    machine.run("dpkg", "-i", f"/root/{packages[0].name}", env=QUIET)
    assert machine.asks("systemctl", "is-active", "forebay.service") == "active"
    Wire.connect(port).close()
    assert machine.asks("id", "-u", "forebay") == "5883"
    state = json.loads(machine.asks("forebay", "service", "status", "--json"))
    assert state["text"] == f"listening on 127.0.0.1:{port}"
    assert state["listeners"] == [{"address": f"127.0.0.1:{port}", "held": True}]
    assert "compiled" in machine.run("journalctl", "-u", "forebay.service", "-o", "cat")
    page = gzip.decompress((machine.root / "usr/share/man/man1/forebay.1.gz").read_bytes()).decode()
    assert page.startswith(".TH FOREBAY 1 ") and ".SH COMMANDS" in page


def test_the_sandbox_holds_broker_and_page(machine: Machine, port: int, page: int) -> None:
    broker = machine.asks("systemctl", "show", "-P", "MainPID", "forebay.service")
    pages = machine.asks("cat", f"/proc/{broker}/task/{broker}/children").split()
    assert len(pages) == 1, "the status page does not run"
    for name, pid in (("broker", broker), ("page", pages[0])):
        state = machine.run("cat", f"/proc/{pid}/status")
        for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"):
            assert line in state, (name, line)
        assert "Uid:\t5883" in state
    served = subprocess.run(
        ["/usr/bin/python3", "-c", f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{page}/healthz').status)"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert served.stdout == "200\n", served.stderr


def test_users_are_known_and_the_boot_is_too(machine: Machine, port: int) -> None:
    """Hashing by cffi, the control socket and files that root wrote, all through the sandbox."""
    machine.run("forebay", "user", "add", "ana", env={"FOREBAY_PASSWORD": "secret"})
    assert machine.asks("stat", "-c", "%U %a", "/var/lib/forebay/passwd") == "forebay 600"
    Wire.connect(port, "a", 5, username="ana", password="secret").close()
    Wire.connect(port, "a", 5, username="ana", password="wrong", code=0x86).close()
    machine.run("forebay", "user", "remove", "ana", "--yes", check=False)
    machine.run("rm", "-f", "/var/lib/forebay/passwd")
    machine.run("systemctl", "restart", "forebay.service")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert boot in machine.run("/usr/bin/python3", "-c", METAS)


METAS = """
import sqlite3
print(sqlite3.connect("/var/lib/forebay/forebay.db").execute("SELECT * FROM meta").fetchall())
"""


def test_an_upgrade_keeps_sessions_and_refuses_nobody(machine: Machine, packages: tuple[Path, Path], port: int) -> None:
    queue = Queue(port)
    queue.open()
    queue.publish(b"before the upgrade")
    with Knocking(port) as knocking:
        machine.run("dpkg", "-i", f"/root/{packages[1].name}", env=QUIET)
        came_in = knocking.came_in
        deadline = time.monotonic() + 30
        while knocking.came_in < came_in + 5:
            assert time.monotonic() < deadline, "nobody comes in after the upgrade"
            time.sleep(0.05)
    queue.publish(b"after the upgrade")
    queue.check()
    print(f"upgrade: longest wait {knocking.longest_s:.2f} s, {knocking.came_in} came in, {len(knocking.cut)} cut off")
    assert knocking.refused == []
    assert len(knocking.cut) <= 1, knocking.cut
    assert machine.asks("dpkg-query", "-W", "-f", "${Version}", "forebay") == "1.0.1"


def test_the_machine_does_its_worst(machine: Machine, port: int, disk: str) -> None:
    """kill -9, a frozen process, a full disk, then a file system that finds itself damaged."""
    machine.run("mkdir", "-p", "/etc/systemd/system/forebay.service.d")
    drop_in = machine.root / "etc/systemd/system/forebay.service.d/soon.conf"
    drop_in.write_text("[Service]\nWatchdogSec=6s\nTimeoutAbortSec=2s\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "forebay.service")
    faults = ("env", "-C", "/root", "python3", "-m", "tests.faults", "--port", str(port))
    print(machine.run(*faults, "kill", "freeze", "full"))
    told = machine.run(*faults, "readonly")
    machine.reboot(lambda: subprocess.run(["e2fsck", "-fy", disk], capture_output=True, check=False))
    machine.run(*faults, "check", "--expect", told.splitlines()[0])


def test_removing_keeps_the_data_and_purging_asks(machine: Machine, packages: tuple[Path, Path], port: int) -> None:
    database = machine.root / "etc/forebay/forebay.toml"
    machine.run("dpkg", "--remove", "forebay", env=QUIET)
    assert machine.asks("systemctl", "is-active", "forebay.service") != "active"
    with pytest.raises(ConnectionRefusedError):
        Wire.connect(port)
    assert not (machine.root / "opt/forebay").exists()
    assert database.exists()
    assert machine.asks("ls", "/var/lib/forebay/forebay.db")
    machine.run("dpkg", "--purge", "forebay", env=QUIET)
    assert database.exists(), "a purge without an answer deleted it"
    machine.run("dpkg", "-i", f"/root/{packages[1].name}", env=QUIET)
    with Wire.connect(port, "faults-reader", 5, clean=False, props=FOREVER) as wire:
        assert wire.connack is not None and wire.connack["present"] == 1, "the session is gone"
        wire.send(mqtt.disconnect(5))
    machine.run("sh", "-c", "echo forebay forebay/purge_data boolean true | debconf-set-selections")
    machine.run("dpkg", "--purge", "forebay", env=QUIET)
    assert not (machine.root / "etc/forebay").exists()
    assert machine.asks("ls", "-A", "/var/lib/forebay") == ""
    left = machine.run("find", "/etc/systemd", "/lib/systemd", "/var/lib/systemd", "-name", "forebay*")
    assert left.replace("/etc/systemd/system/forebay.service.d\n", "") == ""
