"""The namespace of the chaos tests does what they rely on: it carries, it swallows, it carries again."""

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.system.netspace import Namespace, possible

pytestmark = pytest.mark.skipif(not possible(), reason="a network namespace needs root and ip")


@pytest.fixture
def space() -> Iterator[Namespace]:
    with Namespace(os.getpid() % 16_384) as made:
        yield made


def echo(listening: socket.socket) -> None:
    link, _ = listening.accept()
    with link:
        while data := link.recv(1000):
            link.sendall(data)


@pytest.mark.parametrize("answers_only", [False, True])
def test_what_is_sent_into_a_blackhole_comes_through_when_it_ends(space: Namespace, answers_only: bool) -> None:
    with space.inside():
        listening = socket.create_server((space.host, 0))
    with listening:
        threading.Thread(target=echo, args=(listening,), daemon=True).start()
        with socket.create_connection((space.host, listening.getsockname()[1]), 10) as link:
            link.sendall(b"1")
            assert link.recv(10) == b"1"
            space.blackhole(answers_only)
            link.sendall(b"2")
            link.settimeout(0.5)
            with pytest.raises(TimeoutError):
                link.recv(10)
            space.restore()
            link.settimeout(30)
            assert link.recv(10) == b"2"
