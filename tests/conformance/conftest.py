"""``peer``: every test runs in memory and over TCP; tests with the same settings share a process.

``@pytest.mark.settings({"mqtt.max_inflight": 4})`` gives a test a broker of its own settings. With
MQTT_TARGET=mosquitto in the environment the TCP half runs against mosquitto: a check of the tests, not of the product.
"""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.conformance.peer import Host, MemoryHost, Peer, TcpHost, start, start_mosquitto

MOSQUITTO = os.environ.get("MQTT_TARGET") == "mosquitto"
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "settings(table): the settings of the broker that this test needs")


@pytest.fixture(scope="session")
def tcp_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """The processes by their settings; all end with the session."""
    hosts: dict[str, Host] = {}
    yield hosts
    for host in hosts.values():
        assert isinstance(host, TcpHost)
        host.server.kill9()


@pytest.fixture(params=["tcp"] if MOSQUITTO else ["memory", "tcp"])
def peer(
    request: pytest.FixtureRequest, tcp_hosts: dict[str, Host], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    marker = request.node.get_closest_marker("settings")
    settings: dict[str, object] = dict(marker.args[0]) if marker else {}
    if request.param == "memory":
        host = start("memory", settings, tmp_path_factory.getbasetemp())
    else:
        key = repr(sorted(settings.items()))
        if key not in tcp_hosts:
            folder = tmp_path_factory.mktemp("broker")
            if MOSQUITTO and settings:
                pytest.skip("mosquitto knows no such settings")
            tcp_hosts[key] = start_mosquitto(folder) if MOSQUITTO else start("tcp", settings, folder)
        host = tcp_hosts[key]
    made = Peer(host, f"k{next(_numbers)}")
    yield made
    if isinstance(host, MemoryHost):
        host.check_books()
    made.close()
