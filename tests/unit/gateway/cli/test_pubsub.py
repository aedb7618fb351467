"""``forebay pub`` and ``forebay sub``, against a running broker."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from tests.command import Forebay
from tests.harness import Broker, free_port


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as running:
        yield running


def collector(broker: Broker, count: int, qos: int = 1) -> tuple[str, ...]:
    return (
        "sub", "t/#", "--port", str(broker.port), "--id", "collector", "--persistent",
        "--count", str(count), "--qos", str(qos), "--timeout", "20",
    )  # fmt: skip


@pytest.mark.parametrize("qos", [1, 2])
def test_store_and_forward_over_a_crash(forebay: Forebay, broker: Broker, qos: int) -> None:
    assert forebay(*collector(broker, 0, qos)) == (0, "", "")
    lines = "".join(f"{i}\n" for i in range(300))
    assert forebay("pub", "t/a", "-p", str(broker.port), "-q", str(qos), stdin=lines.encode()) == (0, "", "")
    broker.restart()
    first, second = forebay(*collector(broker, 100, qos)), forebay(*collector(broker, 200, qos))
    assert (first.code, second.code) == (0, 0)
    assert first.out + second.out == lines


def test_one_message_and_its_topic(forebay: Forebay, broker: Broker) -> None:
    forebay(*collector(broker, 0))
    assert forebay("pub", "t/ä", "grün", "-p", str(broker.port)) == (0, "", "")
    assert forebay(*collector(broker, 1), "-v").out == "t/ä grün\n"


def test_a_retained_message(forebay: Forebay, broker: Broker) -> None:
    forebay("pub", "t/r", "last", "--retain", "-p", str(broker.port))
    assert forebay("sub", "t/r", "-n", "1", "-w", "10", "-p", str(broker.port)).out == "last\n"


def test_leaving_after_a_time(forebay: Forebay, broker: Broker) -> None:
    assert forebay("sub", "t/#", "-w", "0.2", "-p", str(broker.port)) == (0, "", "")


def test_users(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("right\n")
    (tmp_path / "wrong").write_text("wrong\n")
    forebay("user", "add", "anna", "--password-file", "secret", "--data-dir", "data")
    with Broker(tmp_path / "data", {"allow_anonymous": False}) as broker:
        to = ("pub", "t", "x", "-p", str(broker.port))
        assert forebay(*to, "-u", "anna", "--password-file", "secret").code == 0
        for arguments in ((), ("-u", "anna", "--password-file", "wrong"), ("-u", "berta", "--password-file", "secret")):
            code, out, err = forebay(*to, *arguments)
            assert (code, out) == (1, "")
            assert "connection refused (" in err
            assert err.count("\n") == 1


def test_nobody_listens(forebay: Forebay) -> None:
    port = str(free_port())
    for arguments in (("pub", "t", "x", "-p", port), ("sub", "t", "-p", port)):
        code, out, err = forebay(*arguments)
        assert (code, out) == (3, "")
        assert err.startswith(f"forebay: 127.0.0.1:{port}: cannot connect: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("pub", "t/#", "x"), '"t/#": expected a topic without + and #'),
        (("pub", "t", "x", "--password-file", "f"), "--password-file: expected --user too"),
        (("pub", "t", "x", "--tls-ca", "none.pem"), "none.pem: cannot be used as a CA"),
        (("sub", "t", "--persistent"), "--persistent: expected --id too"),
        (("sub", "t", "--persistent", "--id", "a", "--expiry", "soon"), '--expiry "soon": expected seconds'),
    ],
)
def test_bad_usage(forebay: Forebay, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = forebay(*arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1


def test_a_message_that_could_not_be_printed_stays(forebay: Forebay, broker: Broker) -> None:
    """The output is a pipe whose reader has gone: nothing is acknowledged, the next one gets it."""
    forebay(*collector(broker, 0))
    forebay("pub", "t", "x", "-p", str(broker.port))
    root = Path(str(gateway.__file__)).parent.parent
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONPATH": str(root)}
    env.pop("PYTHONUNBUFFERED", None)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "gateway", *collector(broker, 1)],
        stdout=writer, stderr=subprocess.PIPE, env=env, check=False, timeout=60,
    )  # fmt: skip
    os.close(writer)
    assert ended.returncode == 1
    assert b"the output cannot be written" in ended.stderr
    assert b"Exception" not in ended.stderr
    assert forebay(*collector(broker, 1)).out == "x\n"


def test_garbage_instead_of_a_broker(forebay: Forebay) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        child = subprocess.Popen(
            [sys.executable, "-c", f"import socket; s = socket.socket(fileno={listener.fileno()}); c, _ = s.accept(); "
             "c.recv(9); c.sendall(b'HTTP/1.1 400'); c.close()"], pass_fds=[listener.fileno()],
        )  # fmt: skip
        code, out, err = forebay("pub", "t", "x", "-p", str(port))
        child.wait()
    assert (code, out) == (3, "")
    assert err.count("\n") == 1
