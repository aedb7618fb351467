"""forebay sparkplug probe against real clients over real sockets: each kind of device gets its verdict."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import pytest

from gateway.cli.control import ask
from gateway.profiles import Profile, read
from tests.harness import REPO, Broker, gateway_root
from tests.system.drivers import missing

HERE = Path(__file__).parent
INTERVAL_MS, KEEP_ALIVE_S = 100, 2
TIMEOUT_S = 90.0
SIMULATED = "node-1"  # of forebay sparkplug simulate
SHORT = ("--reconnect", "30", "--settle", "1.5", "--outage", "3")


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(gateway_root()), str(REPO)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}


@final
class Device:
    """A device as a process; ``connections`` counts those that were accepted."""

    def __init__(self, kind: str, port: int, folder: Path) -> None:
        self.kind, self.port, self.folder = kind, port, folder
        self.output = folder / f"{kind}.out"
        self.start()

    def start(self) -> None:
        shared = [str(self.port), "plant", self.kind, str(INTERVAL_MS), str(KEEP_ALIVE_S)]
        if self.kind == SIMULATED:
            line = [sys.executable, "-m", "gateway", "sparkplug", "simulate", "--group", "plant", "--port", shared[0]]
            line += ["--devices", "2", "--metrics", "5", "--rate", "10", "--keep-alive", str(KEEP_ALIVE_S)]
        elif self.kind == "mqttjs":
            line = ["node", str(HERE / "clients" / "spb_device.mjs"), *shared]
        else:
            script = str(HERE / "clients" / "spb_device.py")
            line = [sys.executable, script, self.kind, *shared, str(self.folder / f"{self.kind}.state")]
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(), cwd=self.folder
            )

    def connections(self) -> int:
        return self.output.read_text().splitlines().count("C")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def plant(tmp_path: Path, *kinds: str) -> Iterator[tuple[Broker, dict[str, Device]]]:
    with Broker(tmp_path / "data") as broker, contextlib.ExitStack() as stack:
        devices = {}
        for kind in kinds:
            devices[kind] = device = Device(kind, broker.port, tmp_path)
            stack.callback(device.kill)
        nodes = {f"plant/{kind}" for kind in kinds}
        until(lambda: nodes <= online(broker), lambda: f"{online(broker)}\n{outputs(devices)}")
        yield broker, devices


def online(broker: Broker) -> set[str]:
    """The nodes that are connected and born."""
    rows = ask(broker.data_dir / "control.sock", {"cmd": "sparkplug_nodes"})
    return {row["node"] for row in rows if row["connected"] and row["born"]}


def outputs(devices: dict[str, Device]) -> str:
    return "\n".join(f"{kind}: {device.output.read_text()[-500:]}" for kind, device in devices.items())


def until(true: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


@final
class Probe:
    """The command as a process, in a folder where it writes its profile."""

    def __init__(self, kind: str, broker: Broker, *options: str) -> None:
        self.file = broker.data_dir.parent / f"plant-{kind}.toml"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gateway", "sparkplug", "probe", f"plant/{kind}", "--data-dir", str(broker.data_dir),
             *SHORT, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
            cwd=broker.data_dir.parent,
        )  # fmt: skip
        self.said = b""

    def answer(self, question: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait for the question on stderr, do what it asks for, and say yes."""
        self.wait_for(question)
        meanwhile()
        assert self.process.stdin is not None
        self.process.stdin.write(b"y\n")
        self.process.stdin.flush()

    def wait_for(self, text: str) -> None:
        assert self.process.stderr is not None
        deadline = time.monotonic() + TIMEOUT_S
        while text.encode() not in self.said:
            assert time.monotonic() < deadline, self.said.decode()
            if select.select([self.process.stderr], [], [], 1)[0]:
                more = os.read(self.process.stderr.fileno(), 65_536)
                assert more, self.said.decode()
                self.said += more

    def result(self) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode in (0, 1), err
        assert out, (self.said + err).decode()
        answer: dict[str, Any] = json.loads(out)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


VERDICTS = {
    "paho1": "qos1_ram", "paho0": "qos0_lossy", "native": "qos0_native_sf", "forgetful": "qos1_no_retry",
    "journal": "qos1_persistent", "mqttjs": "qos1_ram", SIMULATED: "qos0_native_sf",
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], Profile]]:
    """All devices at one broker, probed at the same time; the one with a journal is restarted when it is asked for."""
    folder = tmp_path_factory.mktemp("probes")
    kinds = [kind for kind in VERDICTS if kind != "mqttjs" or not missing("mqttjs")]
    with plant(folder, *kinds) as (broker, devices):
        probes = {kind: Probe(kind, broker, "--json", *(["--yes"] if kind != "journal" else [])) for kind in kinds}

        def restart() -> None:
            devices["journal"].kill()
            devices["journal"].start()

        probes["journal"].answer("Go on?")
        probes["journal"].answer("off and on again", restart)
        found = {kind: (probe.result(), read(probe.file)) for kind, probe in probes.items()}
        assert not [kind for kind, device in devices.items() if device.process.poll() is not None], outputs(devices)
        return found


@pytest.mark.timeout(200)
@pytest.mark.parametrize("kind", VERDICTS)
def test_each_kind_of_device_gets_its_verdict(results: dict[str, tuple[dict[str, Any], Profile]], kind: str) -> None:
    if kind == "mqttjs" and missing("mqttjs"):
        pytest.skip(missing("mqttjs"))
    result, profile = results[kind]
    assert result["verdict"] == VERDICTS[kind], result
    assert (profile.evidence.verdict, profile.match.topic) == (VERDICTS[kind], (f"plant/{kind}",))
    assert result["findings"]["counter"].endswith("Counter")
    assert profile.retry.survives_reboot is (True if kind == "journal" else None)
    if kind != "journal":
        assert result["findings"]["skipped"]["reboot"] == "nobody restarted the device"


@pytest.mark.timeout(200)
def test_how_each_of_them_does_it(results: dict[str, tuple[dict[str, Any], Profile]]) -> None:
    findings = {kind: result["findings"] for kind, (result, _) in results.items()}
    paho = findings["paho1"]
    assert (paho["resent"], paho["resent_dup"], paho["replay_order"]) == (paho["unacked"], True, "after_birth")
    assert paho["noticed_ms"] is not None
    assert paho["half_open"]["missing"] == 0
    assert findings["paho0"]["half_open"]["missing"] > 0
    assert findings["native"]["outage"]["historical"] > 0
    assert findings["forgetful"]["resent"] == 0
    if "mqttjs" in findings:
        assert findings["mqttjs"]["replay_order"] == "before_birth"


@pytest.mark.timeout(150)
def test_a_probe_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    with plant(tmp_path, "paho1") as (broker, devices):
        probe = Probe("paho1", broker, "--yes", "--step", "outage", "--outage", "600")
        probe.wait_for("turning it away")
        until(lambda: not ask(broker.data_dir / "control.sock", {"cmd": "sessions"}), broker.log)
        count = devices["paho1"].connections()
        probe.process.send_signal(signal.SIGKILL)
        probe.kill()
        until(lambda: devices["paho1"].connections() > count, lambda: broker.log() + outputs(devices))
        again = Probe("paho1", broker, "--yes", "--step", "acknowledge", "--json").result()
        assert again["findings"]["resent"] == again["findings"]["unacked"] > 0
