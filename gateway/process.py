"""What a process of the broker asks of the operating system and the interpreter."""

import asyncio
import gc
import os
import resource
import sys
from collections.abc import Callable
from typing import Final, NoReturn

# The store's thread asks for the interpreter lock after this time. A busy loop lets go of it at every poll, in turns of
# some 50 us: with a longer wait each of them wakes the thread too late to get it and too early to ask, for seconds.
SWITCH_INTERVAL_S: Final = 0.00001
GC_THRESHOLDS: Final = (50_000, 20, 50)  # messages die by reference count; cycles are rare


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's event loop; the standard one where uvloop has no build."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def raise_descriptor_limit() -> None:
    """As many open files as this user may have: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def settle() -> None:
    """Once all is loaded: what is there now stays, so the garbage collector need not walk it again."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def chance() -> int:
    """A seed that nobody can guess."""
    return int.from_bytes(os.urandom(7), "big")


def leave(status: int) -> NoReturn:
    """End the process without waiting for any thread."""
    sys.stderr.flush()
    os._exit(status)
