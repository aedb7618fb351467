"""The asking side of the control socket, against a real socket."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cli.control import NoBrokerError, RefusedError, ask
from gateway.net.control import ShortPath


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """A broker that gives one answer to one request."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            link, _ = listener.accept()
            with link, link.makefile("rb") as lines:
                asked.append(lines.readline())
                link.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def test_a_result(tmp_path: Path) -> None:
    with answering(tmp_path / "s", b'{"ok": true, "result": {"n": 1}}\n') as asked:
        assert ask(tmp_path / "s", {"cmd": "session", "client_id": "ä\n"}) == {"n": 1}
    assert json.loads(asked[0]) == {"cmd": "session", "client_id": "ä\n"}


def test_a_refusal(tmp_path: Path) -> None:
    with (
        answering(tmp_path / "s", b'{"ok": false, "error": "no session x"}\n'),
        pytest.raises(RefusedError, match=r"^no session x$"),
    ):
        ask(tmp_path / "s", {"cmd": "session", "client_id": "x"})


def test_half_an_answer(tmp_path: Path) -> None:
    with answering(tmp_path / "s", b'{"ok": true'), pytest.raises(NoBrokerError, match="without an answer"):
        ask(tmp_path / "s", {"cmd": "status"})


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(NoBrokerError, match=r"no broker is running with .* as its data folder"):
        ask(tmp_path / "s", {"cmd": "status"})


def test_a_path_longer_than_a_socket_address(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 150)
    folder.mkdir()
    with ShortPath(folder / "s") as short, answering(Path(short), b'{"ok": true, "result": 1}\n'):
        assert ask(folder / "s", {"cmd": "status"}) == 1
