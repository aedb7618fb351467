"""Commands in a machine under test: a program that its initrd brings, and that answers at a port of its own.

An appliance has no password to come in with, and needs none for its tests: what is in the initrd is in /etc before the
system starts, for as long as it runs. The image stays as it was built.
"""

import json
import socket
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

from gateway.image.initrd import Entry, newc

HANDOVER = "exec switch_root"
IN_GUEST = r"""
import json, os, subprocess, time
port = os.open("/dev/virtio-ports/agent", os.O_RDWR)
lines = os.fdopen(os.dup(port), "rb")
while True:
    line = lines.readline()
    try:
        asked = json.loads(line)
    except ValueError:
        time.sleep(0 if line else 1)
        continue
    said = {"number": asked["number"], "code": 0, "out": "", "err": ""}
    if asked["run"]:  # else it was only asked whether it is there, and may find many such questions after a start
        done = subprocess.run(["/bin/sh", "-c", asked["run"]], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        said |= {"code": done.returncode, "out": done.stdout[-20000:], "err": done.stderr[-8000:]}
    data = b"\n" + json.dumps(said).encode() + b"\n"
    while data:
        data = data[os.write(port, data):]
"""
UNIT = """[Unit]
Description=Commands of the tests
DefaultDependencies=no
After=systemd-remount-fs.service
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/bin/python3 /etc/agent/agent.py
Restart=always
RestartSec=1
[Install]
WantedBy=sysinit.target
"""


class Done(NamedTuple):
    """Of one command."""

    code: int
    out: str
    err: str


def with_agent(initrd: bytes, init: str, units: Mapping[str, str], files: Mapping[str, str] | None = None) -> bytes:
    """The initrd with the agent in it; ``init`` is the script in it.

    ``units`` go to /etc/systemd/system, ``files`` to /etc/agent.
    """
    assert init.count(HANDOVER) == 1
    own = {f"agent/{name}": text for name, text in (files or {}).items()}
    own |= {"agent/agent.py": IN_GUEST, "systemd/system/test-agent.service": UNIT}
    own |= {f"systemd/system/{name}": text for name, text in units.items()}
    folders = {"systemd/system/sysinit.target.wants"}
    for name in own:
        folders |= {str(folder) for folder in Path(name).parents if str(folder) != "."}
    folders |= {"systemd", "systemd/system"}
    script = init.replace(HANDOVER, f"cp -a /agent/. /root/etc/\n{HANDOVER}")
    entries = [Entry("init", stat.S_IFREG | 0o755, script.encode()), Entry("agent", stat.S_IFDIR | 0o755)]
    entries += [Entry(f"agent/{name}", stat.S_IFDIR | 0o755) for name in sorted(folders)]
    entries += [Entry(f"agent/{name}", stat.S_IFREG | 0o644, text.encode()) for name, text in own.items()]
    link = "agent/systemd/system/sysinit.target.wants/test-agent.service"
    entries.append(Entry(link, stat.S_IFLNK | 0o777, b"/etc/systemd/system/test-agent.service"))
    return initrd + bytes(-len(initrd) % 4) + newc(entries)


@final
class Agent:
    """The host's end; ``path`` is the socket of its port: no serial one, where the firmware listens for keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self._link: socket.socket | None = None

    def options(self) -> list[str]:
        """For QEMU."""
        return ["-chardev", f"socket,id=agent,path={self._path},server=on,wait=off", "-device", "virtio-serial-pci",
                "-device", "virtserialport,chardev=agent,name=agent"]  # fmt: skip

    def close(self) -> None:
        """The machine is off."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def start(self, command: str) -> None:
        """Let it run, and do not wait."""
        self._send(command)

    def run(self, command: str, timeout_s: float = 300) -> Done:
        """Its end. Asks again as long as nobody is there to answer: the machine may be starting.

        Raises TimeoutError.
        """
        end, asked_at = time.monotonic() + timeout_s, 0.0
        self._number += 1
        heard = b""
        while True:
            if time.monotonic() >= end:
                raise TimeoutError(f"no answer to {command!r} within {timeout_s:.0f} s")
            if not asked_at:
                self._send("")
                asked_at = time.monotonic()
            heard += self._receive()
            *lines, heard = heard.split(b"\n")
            for line in lines:
                answer = _answer(line)
                if answer is not None and answer["number"] == self._number:
                    if asked_at > 0:
                        asked_at = -1.0
                        self._number += 1
                        self._send(command)
                    else:
                        return Done(answer["code"], answer["out"], answer["err"])
            if asked_at > 0 and time.monotonic() > asked_at + 5:
                asked_at = 0.0

    def _send(self, command: str) -> None:
        self._open().sendall(json.dumps({"number": self._number, "run": command}).encode() + b"\n")

    def _receive(self) -> bytes:
        try:
            return self._open().recv(65536)
        except TimeoutError:
            return b""

    def _open(self) -> socket.socket:
        """The machine may be about to be switched on."""
        end = time.monotonic() + 30
        while self._link is None:
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(str(self._path))
            except (FileNotFoundError, ConnectionRefusedError):
                link.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
            else:
                link.settimeout(1)
                self._link = link
        return self._link


def _answer(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "code" in found else None
