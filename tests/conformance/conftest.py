"""``peer``: every test runs in memory and over TCP; tests with the same settings share a process.

``@pytest.mark.settings({"mqtt.max_inflight": 4})`` gives a test a broker of its own settings. With
MQTT_TARGET=mosquitto in the environment the TCP half runs against mosquitto: a check of the tests, not of the product.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import final

import pytest

from tests.conformance.peer import Host, MemoryHost, Peer, TcpHost
from tests.harness import Broker, Mosquitto
from tests.memory import MemoryBroker

MOSQUITTO = os.environ.get("MQTT_TARGET") == "mosquitto"
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "settings(table): the settings of the broker that this test needs")


@final
class Processes:
    """The broker processes by their settings; one that does not start fails all its tests at once."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self.folders = folders
        self.hosts: dict[str, TcpHost] = {}
        self.broken: dict[str, str] = {}

    def host(self, settings: dict[str, object]) -> TcpHost:
        key = repr(sorted(settings.items()))
        if key in self.broken:
            pytest.fail(self.broken[key], pytrace=False)
        if key not in self.hosts:
            server = server_of(settings, self.folders.mktemp("broker"))
            try:
                server.start()
            except RuntimeError as error:
                self.broken[key] = f"the broker of these tests did not start: {error}"
                raise
            self.hosts[key] = TcpHost(server)
        return self.hosts[key]


def server_of(settings: dict[str, object], folder: Path) -> Broker | Mosquitto:
    if not MOSQUITTO:
        return Broker(folder / "data", settings)
    if settings:
        pytest.skip("mosquitto knows no such settings")
    return Mosquitto(folder / "data")


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory)
    yield made
    for host in made.hosts.values():
        host.server.kill9()


@pytest.fixture(params=["tcp"] if MOSQUITTO else ["memory", "tcp"])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    marker = request.node.get_closest_marker("settings")
    settings: dict[str, object] = dict(marker.args[0]) if marker else {}
    if request.param == "memory":
        host: Host = MemoryHost(MemoryBroker(settings))
    else:
        host = request.getfixturevalue("processes").host(settings)
    made = Peer(host, f"k{next(_numbers)}")
    yield made
    host.check()
    made.close()
