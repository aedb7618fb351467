"""``forebay run``: what reaches the broker, and what it ends with."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import gateway
from tests.harness import Broker


def run(*arguments: str) -> tuple[int, str]:
    root = Path(str(gateway.__file__)).parent.parent
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "gateway", "run", *arguments],
        env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return ended.returncode, ended.stderr


def test_it_serves_until_sigterm(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        socket.create_connection(("127.0.0.1", broker.port)).close()
        assert broker.sigterm() == 0


def test_what_stops_a_start_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, err = run("--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "data"))
    assert code != 0
    assert str(port) in err
    assert "Traceback" not in err
    (tmp_path / "file").touch()
    code, err = run("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "file" / "data"))
    assert code != 0
    assert str(tmp_path / "file") in err
    assert "Traceback" not in err


def test_bad_settings_end_with_2(tmp_path: Path) -> None:
    code, err = run("--set", "durability=none", "--data-dir", str(tmp_path))
    assert code == 2
    assert err == 'forebay: --set: durability = "none": expected one of "fsync", "os"\n'
