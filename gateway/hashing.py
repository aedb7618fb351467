"""Passwords are compared with their hashes in a process of its own, which gives way to everybody.

On a thread of the broker it could not: a thread that the system has put aside for others holds what the event loop
needs next, the interpreter and the memory map, and then live messages wait for it. Nor is a low priority enough: who
wakes up waits for the end of its turn, some milliseconds. So the process runs only while nobody else wants to (on Linux
SCHED_IDLE), and where that takes too long another does it at a low priority.
"""

import contextlib
import os
import select
import subprocess
import sys
import threading
from typing import BinaryIO, Final, final

NICENESS: Final = 10
PATIENCE_S: Final = 1.0  # with a process that runs only while nobody else wants to
EAGER: Final = "eager"  # the argument of one that does not wait for that
IDLE_S: Final = 60  # after which it ends


@final
class Hashing:
    """``verify`` may be called from several threads, each of which then has a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[subprocess.Popen[bytes]] = []
        self._is_closed = False

    def verify(self, hashed: str, password: bytes) -> bool:
        """Whether it is the password that this argon2 hash was made from. Blocks for the time of one hash."""
        line = f"{hashed} {password.hex()}\n".encode()
        eager = False
        for _ in range(3):  # one that waited for long may end in this moment, and one may be too slow
            try:
                process = self._take(eager)
                answer = _asked(process, line)
            except OSError:
                break
            if answer:
                self._give(process)
                return answer == b"1\n"
            eager = eager or answer is None
            _end(process)
        return matches(hashed, password)  # no process is to be had: then here

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for process in free:
            _end(process)

    def _take(self, eager: bool) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._free and not eager:
                return self._free.pop()
        path = ["-P"] if sys.flags.safe_path else []
        line = [sys.executable, *path, "-m", "gateway.hashing", *([EAGER] if eager else [])]
        # a group of its own, for Ctrl-C; no session: Linux gives each its share of a core, whatever runs in it
        return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, process_group=0)

    def _give(self, process: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            if not self._is_closed:
                self._free.append(process)
                return
        _end(process)


def _asked(process: "subprocess.Popen[bytes]", line: bytes) -> bytes | None:
    """Its answer; nothing in it when the process is no more, None when it is too slow."""
    assert process.stdin is not None and process.stdout is not None
    try:
        while line:
            line = line[process.stdin.write(line) or 0 :]
        waits = isinstance(process.args, list) and EAGER not in process.args
        late = waits and not select.select([process.stdout], [], [], PATIENCE_S)[0]
        return None if late else process.stdout.readline()
    except BrokenPipeError:
        return b""


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()
    process.kill()  # it holds nothing
    process.wait()


def matches(hashed: str, password: bytes) -> bool:
    """The comparison itself."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return PasswordHasher().verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False


def main(questions: BinaryIO, eager: bool, idle_s: float = IDLE_S) -> None:
    """Answer each line ``HASH PASSWORD`` (in hexadecimal digits) with 1 or 0 on the output.

    To the end of the input, or until none has come for ``idle_s``.
    """
    with contextlib.suppress(OSError, AttributeError):  # not allowed in a sandbox, or not known here
        os.nice(NICENESS)
        if not eager:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while select.select([questions], [], [], idle_s)[0]:
        line = questions.readline()
        if not line.endswith(b"\n"):
            return
        hashed, _, password = line.decode().removesuffix("\n").rpartition(" ")
        os.write(1, b"1\n" if matches(hashed, bytes.fromhex(password)) else b"0\n")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main(sys.stdin.buffer, EAGER in sys.argv[1:])
