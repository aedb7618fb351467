"""The harness that starts servers, tried with a server that is not ours."""

import shutil
from pathlib import Path

import pytest

from tests.harness import Mosquitto, mosquitto_version
from tests.wire import Wire

pytestmark = pytest.mark.skipif(shutil.which("mosquitto") is None, reason="tries the harness with mosquitto")


def test_a_server_lives_dies_and_comes_back_on_its_port(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "data", {"persistence": True}) as server:
        port, pid = server.port, server.pid
        with Wire.connect(port, "keeps", clean=False) as wire:
            wire.subscribe("a", qos=1)
            assert server.cpu_s() >= 0 and server.rss_bytes() > 100_000
        assert server.sigterm() == 0 and not server.running()
        server.start()
        assert server.port == port and server.pid != pid
        Wire.connect(port, "keeps", clean=False, present=1).close()
        server.kill9()
        assert not server.running()
        server.restart()
        assert "mosquitto version" in server.log()
    assert not server.running()


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)ended with .*nonsense"):
        Mosquitto(tmp_path / "data", {"nonsense": 1}).start()


def test_version() -> None:
    assert mosquitto_version()[0].isdigit()
