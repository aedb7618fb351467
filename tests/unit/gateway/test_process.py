import gc
import resource
import subprocess
import sys

import pytest

from gateway import process


def test_the_descriptor_limit_goes_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        process.raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_settle_sets_switch_interval_and_collector() -> None:
    before = sys.getswitchinterval(), gc.get_threshold()
    try:
        process.settle()
        assert sys.getswitchinterval() == pytest.approx(process.SWITCH_INTERVAL_S)
        assert gc.get_threshold() == process.GC_THRESHOLDS
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before[0])
        gc.set_threshold(*before[1])


def test_chance_differs_and_fits_64_bits() -> None:
    seeds = {process.chance() for _ in range(10)}
    assert len(seeds) == 10
    assert max(seeds) < 2**63


def test_without_uvloop_the_standard_loop_serves() -> None:
    code = "import sys; sys.modules['uvloop'] = None\n"
    code += "from gateway.process import loop_factory; print(loop_factory()().close())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"None\n"


def test_leave_waits_for_no_thread() -> None:
    code = "import threading, time; from gateway.process import leave\n"
    code += "threading.Thread(target=time.sleep, args=(60,)).start(); leave(3)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 3
