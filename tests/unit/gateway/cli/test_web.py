"""``forebay web``."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.command import Forebay
from tests.harness import Broker, free_port, gateway_root
from tests.page import Page


def test_it_needs_an_address(forebay: Forebay) -> None:
    code, out, err = forebay("web")
    assert (code, out) == (2, "")
    assert err.startswith("forebay: http.listen = []: expected an address")


def test_it_serves_beside_a_broker_that_has_none(tmp_path: Path) -> None:
    port = free_port()
    line = ["-m", "gateway", "web", "--data-dir", str(tmp_path / "data"), "--set", f"http.listen=127.0.0.1:{port}"]
    environment = {**os.environ, "PYTHONPATH": str(gateway_root())}
    with Broker(tmp_path / "data"):
        with subprocess.Popen([sys.executable, "-P", *line], env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                assert ("forebay_uptime_seconds", ()) in Page(port).wait().metrics()
            finally:
                process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
