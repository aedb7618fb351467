"""Real engines for the tests: NATS servers, built once from the sources of a Go module, and a Kafka from its jars."""

import functools
import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, final

from tests.harness import Server, free_port
from tests.kafka import missing as no_kafka
from tests.kafka import shared as kafka

NATS_VERSION: Final = "v2.12.15"
CACHE: Final = Path(os.environ.get("FOREBAY_TEST_CACHE", "/var/cache/forebay-test"))
BUILD_TIMEOUT_S: Final = 600
APPLICATIONS: Final = "app-*=application,sink=application"
KINDS: Final = ("sqlite", "nats", "kafka")
_NUMBERS: Final = itertools.count(1)


@functools.cache
def nats_binary() -> tuple[str, str]:
    """The path of a nats-server, and why there is none; built where Go is, into a cache outside of the tree."""
    there = CACHE / "nats" / "nats-server"
    if there.exists():
        return str(there), ""
    if shutil.which("go") is None:
        return "", "no nats-server: Go is needed to build one"
    module = f"github.com/nats-io/nats-server/v2@{NATS_VERSION}"
    try:
        there.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(
            ["go", "install", "-trimpath", module],
            capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False,
            env={**os.environ, "GOBIN": str(there.parent)},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as e:
        return "", f"nats-server cannot be built: {e}"
    return (str(there), "") if there.exists() else ("", f"nats-server cannot be built: {made.stderr[-300:]}")


@final
class NatsServer(Server):
    """One nats-server with JetStream; ``cluster`` are the ports of all its servers, ``number`` says which this is."""

    def __init__(
        self, data_dir: Path, cluster: Sequence[int] = (), number: int = 0, sync: str = "always", binary: str = "",
        port: int | None = None, lines: str = "",
    ) -> None:  # fmt: skip
        super().__init__(data_dir, port)
        self.monitor_port = free_port()
        self.cluster, self.number, self.sync, self.lines = list(cluster), number, sync, lines
        self.binary = binary or nats_binary()[0]

    def command(self) -> list[str]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        text = f"""
            server_name: n{self.number}
            listen: "127.0.0.1:{self.port}"
            http: "127.0.0.1:{self.monitor_port}"
            jetstream {{ store_dir: "{self.data_dir}/js" {f", sync_interval: {self.sync}" if self.sync else ""} }}
            {self.lines}
        """
        if self.cluster:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.cluster)
            here = self.cluster[self.number]
            text += f'cluster {{ name: c, listen: "127.0.0.1:{here}", routes: [{routes}] }}\n'
        config = self.data_dir / "nats.conf"
        config.write_text(text)
        return [self.binary, "-c", str(config)]

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"


def nats_cluster(folder: Path, size: int = 3) -> list[NatsServer]:
    """Servers that know each other, not started."""
    ports = [free_port() for _ in range(size)]
    return [NatsServer(folder / f"nats{number}", ports, number) for number in range(size)]


def nats_settings(servers: Sequence[NatsServer], **more: object) -> dict[str, object]:
    """Of a gateway that has them as its engine, with every client whose id begins with app- an APPLICATION."""
    return {
        "application_log.engine": "nats",
        "application_log.nats.servers": ",".join(server.url for server in servers),
        "application_log.nats.monitors": ",".join(f"http://127.0.0.1:{server.monitor_port}" for server in servers),
        "application_log.nats.replicas": len(servers),
        "client_type": APPLICATIONS,
        **more,
    }


class EngineRig(Protocol):
    """One kind of engine for the tests that all kinds pass."""

    outside: bool  # a server beside the gateway, that can be killed
    single: bool  # each message is settled by itself, whatever is settled before and behind it
    trims: bool  # what every application has settled goes from the log soon
    servers: Sequence[Server]  # beside the gateway

    def settings(self) -> dict[str, object]: ...
    def start(self) -> None: ...
    def kill9(self) -> None: ...
    def close(self) -> None: ...


@final
class SqliteRig:
    outside, single, trims = False, True, True
    servers: Sequence[Server] = ()

    def settings(self) -> dict[str, object]:
        return {"client_type": APPLICATIONS}

    def start(self) -> None: ...
    def kill9(self) -> None: ...
    def close(self) -> None: ...


@final
class NatsRig:
    outside, single, trims = True, True, True

    def __init__(self, folder: Path) -> None:
        self._server = NatsServer(folder / "nats")
        self.servers: Sequence[Server] = [self._server]

    def settings(self) -> dict[str, object]:
        return nats_settings([self._server])

    def start(self) -> None:
        self._server.start()

    def kill9(self) -> None:
        self._server.kill9()

    def close(self) -> None:
        self._server.kill9()


@final
class KafkaRig:
    """The server is that of all tests; topics are its own by their prefix."""

    outside, single, trims = True, False, False

    def __init__(self) -> None:
        self.server = kafka()
        self.servers: Sequence[Server] = [self.server]
        self.prefix = f"rig{next(_NUMBERS)}."

    def settings(self) -> dict[str, object]:
        return {
            "application_log.engine": "kafka",
            "application_log.engine_timeout": "2s",
            "application_log.kafka.servers": self.server.address,
            "application_log.kafka.prefix": self.prefix,
            "client_type": APPLICATIONS,
        }

    def start(self) -> None:
        if not self.server.running():
            self.server.start()

    def kill9(self) -> None:
        self.server.kill9()

    def close(self) -> None: ...


def engine_rig(kind: str, folder: Path) -> tuple[EngineRig | None, str]:
    """An engine that is not started, or why there is none here."""
    if kind == "sqlite":
        return SqliteRig(), ""
    if kind == "nats":
        _, why = nats_binary()
        return (None, why) if why else (NatsRig(folder), "")
    if kind == "kafka":
        why = no_kafka()
        return (None, why) if why else (KafkaRig(), "")
    raise ValueError(kind)


def old_nats_binary(folder: Path) -> tuple[str, str]:
    """Debian's nats-server, which is too old, and why there is none; its package is only unpacked."""
    there = CACHE / "nats-old" / "nats-server"
    if there.exists():
        return str(there), ""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "", "no package of Debian here"
    folder.mkdir(parents=True, exist_ok=True)
    got = subprocess.run(
        ["apt-get", "download", "nats-server"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    package = next(folder.glob("nats-server_*.deb"), None)
    if package is None:
        return "", f"no nats-server of Debian: {got.stderr[-300:]}"
    unpacked = folder / "unpacked"
    subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True, timeout=60)
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(next(unpacked.rglob("*bin/nats-server")), there)
    return str(there), ""


def nats_version(binary: str) -> str:
    """As in ``2.12.15``."""
    shown = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    return shown.split()[-1].removeprefix("v")
