"""One broker per data directory, whatever became of the last one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.store.errors import StoreError
from gateway.store.lock import DirectoryLock

HOLD = """
import sys
from pathlib import Path
from gateway.store.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_is_named_and_its_death_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "forebay.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=rf"pid {process.pid}\)"):
            DirectoryLock(path)
        process.kill()
    lock = DirectoryLock(path)
    assert path.read_text() == f"{os.getpid()}\n"
    lock.release()


def test_a_longer_pid_of_before_leaves_no_digits(tmp_path: Path) -> None:
    path = tmp_path / "forebay.lock"
    path.write_text("9" * 30)
    DirectoryLock(path).release()
    assert path.read_text() == f"{os.getpid()}\n"
