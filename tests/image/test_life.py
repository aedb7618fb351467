"""The life of a gateway that was flashed: first start from its card, a power cut, a factory reset, a damaged disk.

The tests are steps: each goes on where the one before has ended.
"""

import re
import subprocess
import threading
import time

import pytest

from tests import wire_format as mqtt
from tests.image.machine import MIB, Machine
from tests.wire import Wire
from tests.wire_format import WireError

pytestmark = pytest.mark.timeout(900)
USER, PASSWORD = "admin", "correct horse"
CARD = f"""# of line 4
hostname = "line-4"

[user]
name = "{USER}"
password = "{PASSWORD}"

[[collector]]
name = "historian"
password = "battery staple"
topics = ["line4/#"]

[[uplink]]
name = "wrong"
addresses = ["nonsense"]
"""
EXPIRY = [(mqtt.SESSION_EXPIRY, 86_400)]
MESSAGES = 3000
DISK_BYTES = 4 << 30
READY = "Enter: show again"  # on the console, once the gateway serves
HELD_S = 120.0  # 30 s of store.error_hold_s on a slow machine
QUOTA_EXCEEDED = 0x97


def boot(gateway: Machine, until: str = READY) -> str:
    """Boot; what the console has shown until then."""
    since = len(gateway.said())
    gateway.start()
    return gateway.wait_for(until, since)


def connect(gateway: Machine, client_id: str, user: str = USER, password: str = PASSWORD, code: int = 0) -> Wire:
    """A persistent session."""
    return Wire.connect(
        gateway.ports[1883], client_id, 5, clean=False, props=EXPIRY, username=user, password=password, timeout=30,
        code=code,
    )  # fmt: skip


def partitions(gateway: Machine) -> str:
    return subprocess.run(
        ["/sbin/sfdisk", "--dump", str(gateway.disk)], capture_output=True, text=True, check=True
    ).stdout


def shut_down(gateway: Machine, since: int) -> None:
    """By the console."""
    gateway.wait_for(READY, since)
    gateway.type("r\n")
    gateway.wait_for("start again? y", since)
    gateway.type("y\n")
    gateway.wait()


def test_the_first_start_puts_the_card_in_force(gateway: Machine) -> None:
    gateway.write("forebay.toml", CARD.encode())
    gateway.grow(DISK_BYTES)
    before = partitions(gateway)
    shown = boot(gateway)
    with connect(gateway, "first") as wire:
        wire.subscribe("line4/#", qos=1)
    with connect(gateway, "nobody", "nobody", "wrong", code=0x86):
        pass
    with connect(gateway, "historian", "historian", "battery staple") as wire:
        wire.subscribe("line4/#", qos=1)
    assert "line-4" in shown
    assert "setup code" not in shown
    after = partitions(gateway)
    ids = re.findall(r"(?:label-id: |uuid=)(\S+?),?\s", before)
    assert len(ids) == (1 if len(gateway.parts) == 4 else 6)  # an MBR has one
    assert not set(ids) & set(re.findall(r"(?:label-id: |uuid=)(\S+?),?\s", after))
    start, size = (int(after.splitlines()[-1].split(key + "=")[1].split(",")[0]) for key in ("start", "size"))
    assert DISK_BYTES - (start + size) * 512 < 2 * MIB


def test_the_card_has_no_password_any_more_and_tells_what_was_wrong(gateway: Machine) -> None:
    left = gateway.read("forebay.toml").decode()
    assert left == CARD.replace(PASSWORD, "").replace("battery staple", "")
    errors = gateway.read("forebay-errors.txt").decode()
    assert "uplink wrong: " in errors
    assert PASSWORD not in errors


def test_nothing_acknowledged_is_lost_when_the_plug_is_pulled(gateway: Machine) -> None:
    acknowledged: list[int] = []
    publisher = connect(gateway, "machine")

    def publish() -> None:
        try:
            for number in range(MESSAGES):
                pid = publisher.publish("line4/count", b"%d" % number, 1)
                publisher.wait_for(mqtt.PUBACK, 60, pid=pid)
                acknowledged.append(number)
        except (OSError, WireError):  # the plug was pulled
            return

    thread = threading.Thread(target=publish)
    thread.start()
    end = time.monotonic() + 120
    while len(acknowledged) < 300:
        assert time.monotonic() < end, f"{len(acknowledged)} acknowledged"
        time.sleep(0.05)
    gateway.kill()
    publisher.close()
    thread.join()
    kept = len(acknowledged)
    assert 300 <= kept < MESSAGES
    boot(gateway)
    with connect(gateway, "machine") as wire:
        for number in range(kept, kept + 200):
            wire.wait_for(mqtt.PUBACK, 60, pid=wire.publish("line4/count", b"%d" % number, 1))
    for client, user, password in (("first", USER, PASSWORD), ("historian", "historian", "battery staple")):
        got: set[int] = set()
        with connect(gateway, client, user, password) as wire:
            assert wire.connack is not None
            assert wire.connack["present"] == 1
            while len(got) < kept + 200:
                packet = wire.wait_for(mqtt.PUBLISH, 60)
                wire.ack(mqtt.PUBACK, packet["pid"])
                got.add(int(packet["payload"]))
        assert got >= set(range(kept + 200))


def test_the_second_start_was_the_same_machine(gateway: Machine) -> None:
    assert "line-4" in gateway.said()[-3000:]
    shut_down(gateway, 0)


def test_a_factory_reset_leaves_nothing_and_takes_the_card_anew(gateway: Machine) -> None:
    gateway.write("factory-reset.txt", b"")
    since = len(gateway.said())
    shown = boot(gateway)
    assert "factory reset done" in shown
    code = re.findall(r"setup code (\S+)", shown)[-1]
    with connect(gateway, "first", "setup", code) as wire:
        assert wire.connack is not None
        assert wire.connack["present"] == 0
    for name in ("factory-reset", "factory-reset.txt", "factory-reset.running"):
        with pytest.raises(FileNotFoundError):
            gateway.read(name)
    gateway.type("u\n")
    gateway.wait_for("user: ", since)
    gateway.type("boss\n")
    gateway.wait_for("password: ", since)
    gateway.type("new password\n")
    gateway.wait_for("boss: added", since)
    with connect(gateway, "boss", "boss", "new password"):
        pass
    with connect(gateway, "late", "setup", code, code=0x86):
        pass
    shut_down(gateway, since)


def test_on_a_data_partition_that_is_lost_the_gateway_starts_and_keeps_nothing(gateway: Machine) -> None:
    """The inode table is overwritten: nothing can be mounted, and what is in its place is gone at the next start."""
    offset = gateway.offset("data")
    with open(gateway.disk, "r+b") as disk:
        disk.seek(offset + 4096 * 64)
        disk.write(b"\xa5" * (4 * MIB))
    shown = boot(gateway)
    assert "data partition absent: it cannot be mounted" in shown
    code = re.findall(r"setup code (\S+)", shown)[-1]
    with Wire.connect(gateway.ports[1883], "", 5, username="setup", password=code, timeout=HELD_S) as wire:
        wire.subscribe("line4/#", qos=1)
        wire.publish("line4/live", b"0")
        assert wire.wait_for(mqtt.PUBLISH)["payload"] == b"0"
        answer = wire.wait_for(mqtt.PUBACK, pid=wire.publish("line4/kept", b"1", 1))
        assert answer["code"] == QUOTA_EXCEEDED
    gateway.kill()
