"""What a process hears from systemd and says to it, over a real notify socket."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gateway.systemd import BEATS, Handed, Systemd
from tests.harness import beside_env
from tests.waiting import until

Heard = Callable[[dict[str, str]], Systemd]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(60)
        yield sock


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Makes one of an environment; all are closed at the end."""
    with ExitStack() as stack:
        yield lambda told: stack.enter_context(closing(Systemd(told)))


def environ(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.getsockname(), **more}


def test_each_state_is_one_datagram(manager: socket.socket, heard: Heard) -> None:
    systemd = heard(environ(manager))
    systemd.ready("listening on 127.0.0.1:1883")
    assert manager.recv(4096) == b"READY=1\nSTATUS=listening on 127.0.0.1:1883"
    systemd.reloading()
    first, second = manager.recv(4096).split(b"\n")
    assert first == b"RELOADING=1"
    assert int(second.removeprefix(b"MONOTONIC_USEC=")) > 0
    systemd.stopping("why")
    assert manager.recv(4096) == b"STOPPING=1\nSTATUS=why"


def test_an_abstract_address_begins_with_an_at() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0forebay-test-{os.getpid()}")
        sock.settimeout(60)
        with closing(Systemd({"NOTIFY_SOCKET": f"@forebay-test-{os.getpid()}"})) as systemd:
            systemd.ready("")
        assert sock.recv(4096) == b"READY=1\nSTATUS="


def test_without_a_manager_nothing_is_said_and_nothing_is_handed_over() -> None:
    systemd = Systemd({})
    systemd.ready("listening")
    systemd.beat(lambda answer: pytest.fail("a beat that nobody waits for"))
    assert systemd.beat_s == 0
    assert systemd.handed.left() == []


def test_a_manager_that_takes_nothing_holds_nobody_up(manager: socket.socket, heard: Heard) -> None:
    systemd = heard(environ(manager))
    for _ in range(10_000):
        systemd.tell("STATUS=" + "x" * 1000)
    Path(manager.getsockname()).unlink()
    systemd.tell("STATUS=gone")


def test_children_find_nothing_of_it(manager: socket.socket, heard: Heard) -> None:
    told = environ(manager, WATCHDOG_USEC="9", WATCHDOG_PID="1", LISTEN_PID="1", LISTEN_FDS="1", LISTEN_FDNAMES="a")
    told["PATH"] = "/bin"
    heard(told)
    assert told == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("told", "beat_s"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30 / BEATS),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30 / BEATS),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({}, 0),
    ],
)
def test_the_watchdog_is_fed_three_times_as_often_as_asked(told: dict[str, str], beat_s: float) -> None:
    assert Systemd(told).beat_s == beat_s


async def test_who_does_not_answer_is_not_vouched_for(manager: socket.socket, heard: Heard) -> None:
    systemd = heard(environ(manager, WATCHDOG_USEC="30000"))
    asked: list[Callable[[], None]] = []
    systemd.beat(asked.append)
    await until(lambda: len(asked) >= 3)
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)
    await asyncio.to_thread(asked[0])
    assert manager.recv(4096) == b"WATCHDOG=1"


def listening(family: int = socket.AF_INET, address: tuple[str, int] | str = ("127.0.0.1", 0)) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind(address)
    sock.listen()
    return sock


def test_a_socket_is_taken_once_by_its_address_or_by_its_name(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with listening() as one, listening() as two, listening(socket.AF_UNIX, path) as three, listening() as four:
        handed = Handed([("a", one), ("wss", two), ("", three), ("wss", four)])
        assert handed.take(socket.AF_INET, ("127.0.0.1", 1)) is None
        assert handed.take(socket.AF_INET6, one.getsockname()) is None
        assert handed.take(socket.AF_INET, one.getsockname()) is one
        assert handed.take(socket.AF_INET, one.getsockname()) is None
        assert handed.take(socket.AF_UNIX, path) is three
        assert handed.left() == [two.getsockname(), four.getsockname()]
        assert handed.named("wss") == [two, four]
        assert handed.left() == []


def test_an_ipv6_socket_goes_by_host_and_port() -> None:
    with listening(socket.AF_INET6, ("::1", 0)) as sock:
        assert Handed([("", sock)]).take(socket.AF_INET6, ("::1", sock.getsockname()[1])) is sock


TAKES = """
import os, socket, sys
from gateway.systemd import Systemd
if sys.argv[1] != "another":
    os.environ["LISTEN_PID"] = str(os.getpid())
handed = Systemd(os.environ).handed
ports = [address[1] for address in handed.left()]
named = [handed.named(name) for name in ("one", "two", "three")]
print(ports, [len(found) for found in named])
print(os.get_inheritable(3), os.get_blocking(3), os.fstat(4) != os.fstat(5))
"""


def taken(*fds: int, who: str = "this") -> str:
    """What a process takes that has these descriptors from 3 on."""
    moves = "import os, sys, fcntl\n"
    moves += f"aside = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in {list(fds)}]\n"
    moves += "for number, fd in enumerate(aside): os.dup2(fd, 3 + number)\n"
    moves += f"os.execv(sys.executable, [sys.executable, '-c', {TAKES!r}, {who!r}])"
    env = {**beside_env(), "LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": "one:two:three", "LISTEN_PID": "1"}
    ran = subprocess.run([sys.executable, "-c", moves], pass_fds=fds, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_what_comes_from_descriptor_3_on_is_found_with_its_names() -> None:
    with listening() as first, listening() as third, open(os.devnull) as no_socket:
        ports = [first.getsockname()[1], third.getsockname()[1]]
        found = taken(first.fileno(), no_socket.fileno(), third.fileno())
        assert found == f"{ports} [1, 0, 1]\nFalse False True\n"


def test_descriptors_of_another_process_are_left_alone() -> None:
    with listening() as first, listening() as second, open(os.devnull) as third:
        found = taken(first.fileno(), second.fileno(), third.fileno(), who="another")
        assert found.splitlines()[0] == "[] [0, 0, 0]"


def test_a_socket_that_does_not_listen_is_none_of_them() -> None:
    with listening() as first, socket.socket() as second, socket.socket(type=socket.SOCK_DGRAM) as third:
        found = taken(first.fileno(), second.fileno(), third.fileno())
        assert found.splitlines()[0] == f"[{first.getsockname()[1]}] [1, 0, 0]"
