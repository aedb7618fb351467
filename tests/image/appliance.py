"""A flashed appliance in QEMU whose updates are tried: its agent, a stick in it, and a client outside."""

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests import wire_format as mqtt
from tests.image.agent import Agent, Done
from tests.image.bundles import Bundles
from tests.image.machine import Machine, machine
from tests.wire import Wire
from tests.wire_format import WireError

START_S: Final = 420
USER, PASSWORD = "admin", "correct horse"
CARD: Final = f'[user]\nname = "{USER}"\npassword = "{PASSWORD}"\n'
STICK: Final = "/run/stick"


class Appliance:
    """``expected``: of the messages that wait for a collector that is away, all acknowledged."""

    def __init__(self, vm: Machine, agent: Agent) -> None:
        self.vm, self.agent = vm, agent
        self.expected: list[int] = []

    def start(self) -> None:
        self.vm.start()

    def stop(self) -> None:
        """Its plug is pulled."""
        self.vm.kill()
        self.agent.close()

    def shut_down(self) -> None:
        self.agent.start("systemctl poweroff")
        self.vm.wait()
        self.agent.close()

    def run(self, command: str, timeout_s: float = START_S) -> Done:
        """Told where the test is shown (``pytest -s``), since it takes its time."""
        began = time.monotonic()
        done = self.agent.run(command, timeout_s)
        print(
            f"{time.strftime('%H:%M:%S')} {time.monotonic() - began:4.0f} s {command.splitlines()[0][:100]}", flush=True
        )
        return done

    def ok(self, command: str, timeout_s: float = START_S) -> str:
        done = self.run(command, timeout_s)
        assert done.code == 0, f"{command}: {done}"
        return done.out

    def refused(self, words: str) -> str:
        """``forebay update`` says no, in one line."""
        done = self.run(f"forebay update {words}")
        assert done.code == 1 and done.err.count("\n") == 1 and done.err.startswith("forebay: "), done
        return done.err

    def status(self) -> dict[str, Any]:
        """Once the unit has had its say, which is up to the first start after an update."""
        self.ok(
            "until systemctl show -P ActiveState forebay-confirm.service | grep -Exq 'active|failed'; do sleep 1; done"
        )
        found: dict[str, Any] = json.loads(self.ok("forebay update status --json"))
        return found

    def boot_id(self) -> str:
        return self.ok("cat /proc/sys/kernel/random/boot_id").strip()

    def mount_stick(self) -> None:
        self.ok(f"mkdir -p {STICK}; mountpoint -q {STICK} || mount -o ro /dev/sda {STICK}")

    def install(self, name: str, options: str = "") -> None:
        self.mount_stick()
        self.ok(f"forebay update install {options} {STICK}/{name}")

    def boots_into(self, slot: str, command: str = "systemctl reboot") -> dict[str, Any]:
        """Let it start again, however often, until it has come to rest in that slot; its status."""
        before = self.boot_id()
        print(f"{time.strftime('%H:%M:%S')} to slot {slot}: {command}", flush=True)
        self.agent.start(command)
        end = time.monotonic() + 3 * START_S
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):  # it was asked while it went down
                said = self.agent.run("cat /proc/sys/kernel/random/boot_id; . /run/forebay-boot.env; echo $SLOT", 20)
                words = said.out.split()
                if words[1:] == [slot] and words[0] != before:
                    return self.status()
            time.sleep(2)
        raise AssertionError(f"slot {slot} did not come: {self.vm.said()[-4000:]}")

    def client(self, client_id: str, clean: bool = False, present: int | None = None) -> Wire:
        end = time.monotonic() + START_S
        while True:
            try:
                return Wire.connect(
                    self.vm.ports[1883], client_id, clean=clean, present=present, username=USER, password=PASSWORD,
                    timeout=30,
                )  # fmt: skip
            except (OSError, WireError):
                assert time.monotonic() < end, "the gateway does not answer"
                time.sleep(1)

    def fill(self, count: int) -> None:
        """That many more messages for a session that is away, all acknowledged."""
        if not self.expected:
            with self.client("collector") as wire:
                wire.subscribe("line/#", qos=1)
        begin = self.expected[-1] + 1 if self.expected else 0
        with self.client("machine", clean=True) as machine:
            for number in range(begin, begin + count):
                machine.publish_done("line/1", str(number).encode(), qos=1)
        self.expected += range(begin, begin + count)

    def drain(self) -> None:
        """The session is as it was left, and all of them are there still, in order."""
        with self.client("collector", present=1) as wire:
            found: list[int] = []
            while len(found) < len(self.expected):
                packet = wire.expect(mqtt.PUBLISH, 60)
                found.append(int(packet["payload"]))
                wire.puback(packet["pid"])
        assert found == self.expected
        self.expected = self.expected[-1:]
        self.fill(1)  # so that the next number is known, and one always waits
        self.expected = self.expected[-1:]


@contextmanager
def appliance(folder: Path, bundles: Bundles, stick: Path) -> Iterator[Appliance]:
    """Flashed, with the agent in its first initrd, and the stick in it. It is not started yet."""
    (image,) = bundles.built.glob("*.img.zst")
    described = json.loads(next(bundles.built.glob("*.manifest.json")).read_text())
    agent = Agent(folder / "agent.sock")
    with machine(folder, image, "amd64", described) as vm:
        vm.grow(4 << 30)
        vm.write("a/initrd.img", bundles.initrd, "boot")
        vm.write("forebay.toml", CARD.encode())
        vm.reboots = True
        vm.extra += agent.options()
        vm.extra += ["-device", "qemu-xhci", "-drive", f"if=none,id=stick,format=raw,readonly=on,file={stick}"]
        vm.extra += ["-device", "usb-storage,drive=stick,removable=on"]
        found = Appliance(vm, agent)
        try:
            yield found
        finally:
            found.stop()
