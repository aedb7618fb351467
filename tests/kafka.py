"""A real Kafka for the tests: one node in KRaft mode on loopback, ended kindly or not and started again on its data."""

import asyncio
import atexit
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

from aiokafka import AIOKafkaClient
from aiokafka.errors import KafkaError

from tests.harness import REPO, Server, free_port

POM: Final = REPO / "tests/system/kafka/pom.xml"
CACHE: Final = REPO / "build/kafka"
CLUSTER: Final = "Zm9yZWJheS10ZXN0cy0xMg"
READY_S: Final = 60.0


@functools.cache
def missing() -> str:
    """Why no Kafka can be started here, "" where it can."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None and not (program == "mvn" and _known()):
            return f"{program} is not installed"
    try:
        classpath()
    except (OSError, subprocess.SubprocessError) as e:
        return f"Maven could not get Kafka's jars: {e}"
    return ""


def _known() -> str:
    """The class path that was found before, if all that is on it is still there."""
    file = CACHE / "classpath"
    if not file.exists() or file.stat().st_mtime < POM.stat().st_mtime:
        return ""
    found = file.read_text().strip()
    return found if found and all(Path(jar).exists() for jar in found.split(os.pathsep)) else ""


def classpath() -> str:
    """Kafka's jars, resolved by Maven into its own repository: a minute the first time, nothing later."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes test at once
        found = _known()
        if found:
            return found
        file = CACHE / "classpath"
        fresh = file.with_suffix(".new")
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
        subprocess.run(
            ["mvn", "-q", "-B", "-f", str(POM), goal, f"-Dmdep.outputFile={fresh}"],
            check=True, capture_output=True, timeout=600,
        )  # fmt: skip
        fresh.replace(file)
        return file.read_text().strip()


@final
class Kafka(Server):
    """``settings`` are lines of its configuration; ``heap`` is the most of the JVM's heap."""

    def __init__(
        self, data_dir: Path, settings: Mapping[str, object] | None = None, port: int | None = None,
        heap: str = "384m", quick: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(data_dir, port)
        self.settings = dict(settings or {})
        self.heap, self.quick = heap, quick
        self._controller = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        config = self._configure()
        tiered = ["-XX:TieredStopAtLevel=1"] if self.quick else []  # starts in half the CPU, runs slower
        return [
            "java", f"-Xmx{self.heap}", "-Xms64m", "-XX:+UseSerialGC", *tiered, "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath(), "kafka.Kafka", str(config),
        ]  # fmt: skip

    def _configure(self) -> Path:
        """Its configuration, and the mark of a formatted disk: the tool that writes it is a JVM of its own."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        mark = self.data_dir / "meta.properties"
        if not mark.exists():
            mark.write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n")
        lines: dict[str, object] = {
            "process.roles": "broker,controller", "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data_dir, "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1, "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1, "group.initial.rebalance.delay.ms": 0,
            # else one that was killed waits for its former self to be given up
            "broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 200,
            "num.network.threads": 1, "num.io.threads": 2, "log.cleaner.dedupe.buffer.size": 2_100_000,
        }  # fmt: skip
        lines.update(self.settings)
        config = self.data_dir / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return config

    def wait_ready(self, timeout: float = READY_S) -> None:
        """Until it takes clients: a listening port is not enough."""
        super().wait_ready(timeout)
        failed: list[BaseException] = []
        thread = threading.Thread(target=self._ask, args=(timeout, failed))  # the caller may be in an event loop
        thread.start()
        thread.join()
        if failed:
            self.kill9()
            raise RuntimeError(f"takes no clients after {timeout} s: {failed[0]!r}\n{self.log()[-4000:]}")

    def _ask(self, timeout: float, failed: list[BaseException]) -> None:
        try:
            asyncio.run(asyncio.wait_for(self._answers(), timeout))
        except (TimeoutError, KafkaError) as e:
            failed.append(e)

    async def _answers(self) -> None:
        while True:
            client = AIOKafkaClient(bootstrap_servers=self.address, request_timeout_ms=5000)
            try:
                await client.bootstrap()
                if await client.force_metadata_update() and client.cluster.brokers():
                    return
            except KafkaError:
                pass
            finally:
                await client.close()
            await asyncio.sleep(0.1)


@functools.cache
def shared() -> Kafka:
    """One for all tests of a process, since each takes seconds to start; perhaps not running. Names must differ."""
    folder = Path(tempfile.mkdtemp(prefix="forebay-kafka-"))
    made = Kafka(folder / "data")
    atexit.register(shutil.rmtree, folder, True)
    atexit.register(made.kill9)
    return made


if __name__ == "__main__":
    sys.exit(missing() or None)
