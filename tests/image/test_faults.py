"""What machines do to a gateway, done to one that was flashed and booted: it heals, or degrades as documented.

The tests are steps: each goes on where the one before has ended. A client is on this machine, in a network namespace
together with the gateway and a time server; what has to be done on the gateway its agent does.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, final

import pytest

from tests import wire_format as mqtt
from tests.image.agent import Agent, with_agent
from tests.image.conftest import Built
from tests.image.machine import BOOT_S, KINDS, Machine, machine
from tests.image.timeserver import time_server
from tests.system.netspace import Namespace, possible
from tests.wire import Wire
from tests.wire_format import WireError

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not possible(), reason="a time server of its own needs a network namespace, and that root"),
]
REPO: Final = Path(__file__).parents[2]
NAMESPACE: Final = 16_000
USER, PASSWORD = "admin", "correct horse"
CARD: Final = f"""[user]
name = "{USER}"
password = "{PASSWORD}"

[network]
address = "dhcp"
ntp = ["10.0.2.2"]
"""  # the address by which QEMU's network has the loopback of its host
IN_GUEST: Final = ("tests/__init__.py", "tests/faults.py", "tests/wire.py", "tests/wire_format.py")
OFTEN: Final = Path("/etc/systemd/timesyncd.conf.d/often.conf")  # a server that does not answer is asked less and less
FAULTS: Final = f"cd /etc/agent && python3 -m tests.faults --data /var --user {USER} --password '{PASSWORD}' "
DISK_BYTES: Final = 2 << 30
READY: Final = "Enter: show again"
DAY: Final = [(mqtt.SESSION_EXPIRY, 86_400)]
HOUR_S, TEN_YEARS_S = 3600, 10 * 365 * 86_400
MESSAGES: Final = 100
HELD_S: Final = 120.0  # 30 s of store.error_hold_s on a slow machine
SERVER_UNAVAILABLE, QUOTA_EXCEEDED = 0x88, 0x97


@final
class Box:
    """The gateway, from outside and inside."""

    def __init__(self, vm: Machine, agent: Agent) -> None:
        self.vm, self.agent = vm, agent
        self.acknowledged: list[str] = []  # by the faults' own session

    def start(self, until: str = READY) -> str:
        """Boot, and wait until the console shows that; what it has shown."""
        since = len(self.vm.said())
        self.vm.start()
        return self.vm.wait_for(until, since)

    def stop(self, gently: bool = False) -> None:
        if gently:
            self.agent.start("systemctl poweroff")
            self.vm.wait()
        self.vm.kill()
        self.agent.close()

    def ok(self, command: str, timeout_s: float = BOOT_S) -> str:
        done = self.agent.run(command, timeout_s)
        print(done.err)
        assert done.code == 0, f"{command}: {done}"
        return done.out

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ok("forebay status --json"))
        return found

    def connect(self, client_id: str, code: int = 0, present: int | None = None, user: str = USER,
                password: str = PASSWORD) -> Wire:  # fmt: skip
        """A session of a day for those with a client id."""
        return Wire.connect(
            self.vm.ports[1883], client_id, 5, clean=not client_id, props=DAY if client_id else (), timeout=HELD_S,
            username=user, password=password, code=code, present=present, keepalive=0,
        )  # fmt: skip

    def data(self) -> str:
        """The data partition, for e2fsprogs on this machine."""
        return f"{self.vm.disk}?offset={self.vm.offset('data')}"


@pytest.fixture(scope="module")
def box(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    folder = tmp_path_factory.mktemp("machine")
    agent = Agent(folder / "agent.sock")
    programs = {name: (REPO / name).read_text() for name in IN_GUEST}
    init = (REPO / "images/initramfs/init").read_text()
    with (
        Namespace(NAMESPACE) as space,
        space.inside(),
        machine(folder, built.image, KINDS[built.manifest["board"]], built.manifest) as vm,
    ):
        vm.grow(DISK_BYTES)
        vm.write(
            "a/initrd.img", with_agent((built.folder / "slot/initrd.img").read_bytes(), init, {}, programs), "boot"
        )
        vm.write("forebay.toml", CARD.encode())
        vm.restricted = False
        vm.extra += agent.options()
        found = Box(vm, agent)
        found.start()
        yield found
        found.stop()


def test_each_of_these_heals_by_itself(box: Box) -> None:
    """systemctl restart, kill -9, SIGSTOP, a full data partition, a data partition that is made read-only."""
    assert box.ok("systemctl list-units --state=failed --plain --no-legend") == ""
    held = box.ok("systemctl show -P Listen forebay.socket")
    assert "0.0.0.0:1883 (Stream)" in held and "0.0.0.0:8883 (Stream)" in held
    box.ok(FAULTS + "restart kill freeze full remount")


def test_the_first_sync_moves_the_clock_by_ten_years(box: Box) -> None:
    """By a time server that systemd-timesyncd asks: expiry and sessions do not see it, nobody is cut off."""
    box.ok(f"mkdir -p {OFTEN.parent}; printf '[Time]\\nPollIntervalMinSec=16\\nPollIntervalMaxSec=32\\n' >{OFTEN}; "
           "systemctl restart systemd-timesyncd")  # fmt: skip
    was_s = int(box.ok("date -s 2016-11-30 >/dev/null; date +%s"))
    assert box.ok("ls /run/systemd/timesync").split() == []
    pid = box.ok("systemctl show -P MainPID forebay.service")
    with box.connect("reader") as wire:
        wire.subscribe("line/#", qos=1)
    begun = time.monotonic()
    with box.connect("") as publisher, box.connect("online") as online:
        for number in range(MESSAGES):
            publisher.publish_done("line/1", b"%d" % number, props=[(mqtt.MESSAGE_EXPIRY, HOUR_S)])
        with time_server(was_s + TEN_YEARS_S) as asked:
            end = time.monotonic() + BOOT_S
            while int(box.ok("date +%s")) < was_s + TEN_YEARS_S:
                assert time.monotonic() < end, f"the clock was not set; the server was asked {len(asked)} times"
                time.sleep(1)
        box.ok("test -e /run/systemd/timesync/synchronized")
        time.sleep(3)  # ticks of the gateway
        for client in (publisher, online):
            client.send(mqtt.frame(0xC0, b""))
            client.wait_for(mqtt.PINGRESP, HELD_S)
    assert box.ok("systemctl show -P MainPID forebay.service") == pid
    box.ok("systemctl restart forebay.service")
    box.connect("online", present=1).close()
    with box.connect("reader", present=1) as wire:
        for number in range(MESSAGES):
            packet = wire.wait_for(mqtt.PUBLISH, HELD_S)
            wire.settle(packet)
            left_s = dict(packet["props"])[mqtt.MESSAGE_EXPIRY]
            assert packet["payload"] == b"%d" % number
            assert HOUR_S - (time.monotonic() - begun) - 5 <= left_s <= HOUR_S


def test_a_damaged_file_system_takes_nothing_and_loses_nothing(box: Box) -> None:
    """The kernel finds ext4 damaged and makes it read-only; so the gateway starts again, and serves what it can."""
    box.acknowledged = json.loads(box.ok(FAULTS + "readonly"))
    assert box.acknowledged
    box.ok("systemctl restart forebay.service")
    assert box.status()["read_only"]
    keeps_nothing(box)


def keeps_nothing(box: Box, user: str = USER, password: str = PASSWORD) -> None:
    """QoS 0 passes; what a session is to keep is refused, and so is who wants to have one."""
    with box.connect("", user=user, password=password) as live, box.connect("", user=user, password=password) as other:
        live.subscribe("live/#", qos=1)
        other.publish("live/0", b"still here")
        assert live.wait_for(mqtt.PUBLISH, HELD_S)["payload"] == b"still here"
        pid = other.publish("faults/kept", b"not kept", 1)
        box.connect("faults-reader", SERVER_UNAVAILABLE, user=user, password=password).close()
        answer = other.wait_for(mqtt.PUBACK, HELD_S, pid=pid)
        assert answer["code"] == QUOTA_EXCEEDED


def test_the_next_start_repairs_it(box: Box) -> None:
    box.stop()
    shown = box.start()
    assert "data partition: the file system was repaired" in shown
    assert box.status()["read_only"] is None
    box.ok(FAULTS + f"check --expect '{json.dumps(box.acknowledged)}'")
    with box.connect("") as wire:
        wire.publish_done("faults/kept", b"before it was damaged for good")
    box.acknowledged = ["before it was damaged for good"]


def test_what_cannot_be_repaired_is_read_and_not_changed(box: Box) -> None:
    """e2fsck -p does not mend it: the partition is read-only, with changes in RAM above it that nobody must trust."""
    box.stop(gently=True)
    damage = "set_inode_field lost+found mode 0100644\nset_super_value state 2\n"
    subprocess.run(["/sbin/debugfs", "-w", "-f", "-", box.data()], input=damage, text=True, check=True)
    shown = box.start()
    assert "data partition read-only: e2fsck cannot repair it by itself" in shown
    assert "DATA_STATE=read-only" in box.ok("cat /run/forebay-boot.env")
    told = box.status()
    assert told["read_only"] == "data partition /dev/vda5: e2fsck cannot repair it by itself"
    assert "faults-reader" in box.ok("forebay sessions list")
    keeps_nothing(box)


def test_nothing_of_it_is_lost_when_somebody_repairs_it(box: Box) -> None:
    box.stop()
    done = subprocess.run(["/sbin/e2fsck", "-fy", box.data()], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    box.start()
    box.ok(FAULTS + f"check --expect '{json.dumps(box.acknowledged)}'")


def test_emergency_mode_says_what_is_wrong_and_asks_nobody_for_a_password(box: Box) -> None:
    box.stop(gently=True)
    entry = box.vm.read("loader/entries/a.conf", "boot").decode()
    box.vm.write(
        "loader/entries/a.conf", entry.replace("quiet", "quiet systemd.unit=emergency.target").encode(), "boot"
    )
    shown = box.start("Nothing is served.")
    assert "Forebay cannot start: emergency mode" in shown
    with contextlib.suppress(WireError, OSError):
        box.connect("").close()
        raise AssertionError("it serves")
    assert box.vm.is_running()
    box.stop()
