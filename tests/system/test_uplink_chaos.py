"""An uplink under 2,000 messages/s at QoS 1 while everything on its way fails at random: nothing is lost, the order
stays, and what comes twice was in flight when a connection ended, or just acknowledged when the gateway was killed.

FOREBAY_CHAOS_S is how long each remote is tried (12 s; ``make soak`` takes 150), FOREBAY_SEED what is random.
"""

import os
import random
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, final

import pytest
import trustme

from gateway.cli.control import ask
from tests.harness import Broker, Mosquitto, Server
from tests.system.disks import until
from tests.system.flow import Sink, Source
from tests.system.netspace import Namespace
from tests.system.relay import Relay, faults

SECONDS = float(os.environ.get("FOREBAY_CHAOS_S", "12"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
RATE: Final = 2000
WINDOW: Final = 32  # of the uplink
PATIENCE_S: Final = 60.0
TOPIC: Final = "line/7/data"


@final
class Site:
    """The gateway with its uplink, the relay in front of the broker at the far end, and that broker."""

    def __init__(self, stack: ExitStack, folder: Path, kind: str, chance: random.Random) -> None:
        self.chance, self.folder = chance, folder
        self.space = stack.enter_context(Namespace(os.getpid() % 16_384))
        self.ca = trustme.CA()
        self.ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.certificates = 0
        self.renew()
        self.remote: Server = Broker(folder / "far") if kind == "gateway" else Mosquitto(folder / "far")
        with self.space.inside():
            stack.enter_context(self.remote)
        self.relay = Relay(self.space.host, self.remote.port, self._tls(), self.space.inside)
        stack.enter_context(self.relay)
        config = folder / "near.toml"
        config.write_text(self._settings())
        self.gateway = Broker(folder / "near", arguments=["--config", str(config)])
        stack.enter_context(self.gateway)

    def _tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(self.space.host).configure_cert(context)
        self.ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _settings(self) -> str:
        return f"""
            [[uplink]]
            name = "far"
            addresses = ["mqtts://{self.space.host}:{self.relay.port}"]
            rules = [{{ direction = "out", filter = "line/#", remote_prefix = "site/" }}]
            ca = "{self.folder}/ca.pem"
            cert = "{self.folder}/cert.pem"
            key = "{self.folder}/key.pem"
            keep_alive = 1
            heartbeat = 2
            max_inflight = {WINDOW}
        """

    # what can go wrong

    def renew(self) -> None:
        """Another certificate, file by file as any tool would write them."""
        self.certificates += 1
        mine = self.ca.issue_cert("gateway", common_name=f"gateway-{self.certificates}")
        for part, pem in (("key", mine.private_key_pem), ("cert", mine.cert_chain_pems[0])):
            pem.write_to_path(str(self.folder / "fresh.pem"))
            (self.folder / "fresh.pem").replace(self.folder / f"{part}.pem")

    def cut(self) -> None:
        self.relay.cut()

    def blackhole(self) -> None:
        for_s = self.chance.uniform(0.5, 4)
        if not self.space.real:
            self.relay.freeze(True)
            time.sleep(for_s)
            self.relay.freeze(False)
            return
        self.space.blackhole(answers_only=self.chance.random() < 0.5)
        time.sleep(for_s)
        self.space.restore()

    def kill_remote(self) -> None:
        self.remote.kill9()
        time.sleep(self.chance.choice([0, 0.5]))
        with self.space.inside():
            self.remote.start()

    def kill_gateway(self) -> None:
        self.gateway.kill9()
        time.sleep(self.chance.choice([0, 0.5]))
        self.gateway.start()

    def hammer(self) -> list[str]:
        """Every fault once, in any order, then at random until the time is over."""
        faults: list[Callable[[], None]] = [self.cut, self.blackhole, self.kill_remote, self.kill_gateway, self.renew]
        due = self.chance.sample(faults, len(faults))
        told: list[str] = []
        end = time.monotonic() + SECONDS
        while due or time.monotonic() < end:
            time.sleep(self.chance.uniform(0.3, 1.5))
            fault = due.pop() if due else self.chance.choice(faults)
            told.append(fault.__name__)
            fault()
        return told

    def row(self) -> dict[str, object]:
        rows: list[dict[str, object]] = ask(self.gateway.data_dir / "control.sock", {"cmd": "uplinks"})
        return rows[0]

    def drained(self) -> bool:
        row = self.row()
        return row["state"] == "forwarding" and not row["queue_messages"] and not row["inflight"]


@contextmanager
def site(folder: Path, kind: str) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(stack, folder, kind, random.Random(SEED))


@pytest.mark.timeout(4 * PATIENCE_S + 3 * SECONDS)
def test_against_mosquitto(tmp_path: Path) -> None:
    """What mosquitto has acknowledged counts as arrived: it forgets that itself when it is killed."""
    print("seed", SEED)
    with site(tmp_path, "mosquitto") as here:
        with Source(here.gateway.port, TOPIC, RATE) as source:
            told = here.hammer()
            count = source.finish(PATIENCE_S)
            until(here.drained, "the uplink is not drained", PATIENCE_S)
        found = faults(here.relay.passed(), count, WINDOW, source.repeated, told.count("kill_gateway"))
        assert not found, "\n".join([f"seed {SEED}", str(told), *found, here.gateway.log()[-3000:]])


@pytest.mark.timeout(4 * PATIENCE_S + 3 * SECONDS)
def test_against_another_gateway(tmp_path: Path) -> None:
    """Whoever is subscribed there gets it all, too."""
    print("seed", SEED)
    with site(tmp_path, "gateway") as here, ExitStack() as stack:
        with here.space.inside():
            sink = stack.enter_context(Sink("127.0.0.1", here.remote.port, "site/#", here.space.inside))
        with Source(here.gateway.port, TOPIC, RATE) as source:
            told = here.hammer()
            count = source.finish(PATIENCE_S)
            until(here.drained, "the uplink is not drained", PATIENCE_S)
        found = faults(here.relay.passed(), count, WINDOW, source.repeated, told.count("kill_gateway"))
        until(lambda: len(set(sink.numbers)) >= count, "the subscriber has not got it all", PATIENCE_S)
        first = list(dict.fromkeys(sink.numbers))
        if first != list(range(count)):
            found.append("the subscriber got them in another order")
        assert not found, "\n".join([f"seed {SEED}", str(told), *found, here.gateway.log()[-3000:]])
