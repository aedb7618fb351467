"""Passwords compared in a process of its own, with real processes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from gateway import hashing
from gateway.hashing import NICENESS, Hashing, matches
from tests.harness import beside_env

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
RIGHT = CHEAP.hash(b"right")


@pytest.fixture
def made() -> Iterator[Hashing]:
    hashing = Hashing()
    yield hashing
    hashing.close()


def pids(made: Hashing) -> list[int]:
    return [process.pid for process in made._free]


def test_right_and_wrong_in_one_process_that_gives_way(made: Hashing) -> None:
    assert made.verify(RIGHT, b"right")
    (pid,) = pids(made)
    for password in (b"wrong", b"", b"right\n", b"\xff\x00", bytes(60_000)):
        assert not made.verify(RIGHT, password)
    assert made.verify(CHEAP.hash(b"\xff\x00\n"), b"\xff\x00\n")
    assert not made.verify("no hash at all", b"right")
    assert pids(made) == [pid]
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    assert b"right" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_each_thread_has_one_while_it_needs_it(made: Hashing) -> None:
    together, found = threading.Barrier(3), []

    def verify() -> None:
        together.wait()
        found.append(made.verify(RIGHT, b"right"))

    threads = [threading.Thread(target=verify) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3
    assert 1 <= len(pids(made)) <= 3


def test_one_that_has_ended_is_replaced(made: Hashing) -> None:
    assert made.verify(RIGHT, b"right")
    (process,) = made._free
    process.kill()
    process.wait()
    assert made.verify(RIGHT, b"right")
    assert pids(made) != [process.pid]


def test_one_that_gets_no_time_is_replaced_by_one_that_does(made: Hashing, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made.verify(RIGHT, b"right")
    (slow,) = made._free
    slow.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(hashing, "PATIENCE_S", 0.1)
    assert made.verify(RIGHT, b"right")
    (eager,) = made._free
    assert eager is not slow and slow.returncode is not None
    assert os.sched_getscheduler(eager.pid) == os.SCHED_OTHER
    assert not made.verify(RIGHT, b"wrong")
    assert pids(made) == [eager.pid]


def test_where_no_process_is_to_be_had_it_is_done_here(made: Hashing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nothing")
    assert made.verify(RIGHT, b"right")
    assert not made.verify(RIGHT, b"wrong")
    assert pids(made) == []


def test_after_the_end_none_is_left(made: Hashing) -> None:
    assert made.verify(RIGHT, b"right")
    (process,) = made._free
    made.close()
    assert process.returncode is not None
    assert made.verify(RIGHT, b"right"), "what was under way still gets its answer"
    assert pids(made) == []


def ended(given: bytes) -> tuple[int, bytes]:
    line = [sys.executable, "-m", "gateway.hashing"]
    done = subprocess.run(line, input=given, capture_output=True, env=beside_env(), check=False, timeout=60)
    assert done.stderr == b""
    return done.returncode, done.stdout


def test_it_ends_with_its_input() -> None:
    line = f"{RIGHT} {b'right'.hex()}\n".encode()
    assert ended(b"") == (0, b"")
    assert ended(line + line + f"{RIGHT} {b'wrong'.hex()}\n{RIGHT} \n".encode()) == (0, b"1\n1\n0\n0\n")
    assert ended(line + line[:-1]) == (0, b"1\n"), "half a line is no question"


def test_it_ends_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda _: 0)
    reading, writing = os.pipe()
    with open(reading, "rb") as questions:
        hashing.main(questions, True, 0.01)
    os.close(writing)


def test_the_comparison_itself() -> None:
    assert matches(RIGHT, b"right")
    assert not matches(RIGHT, b"wrong")
    assert not matches("", b"")
