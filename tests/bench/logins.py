"""What wrong passwords cost live traffic: QoS 1 messages at an even pace, without and with a flood of logins.

``python -m tests.bench.logins [LOGINS_PER_S] [SECONDS]`` prints one line of JSON: microseconds from PUBLISH to delivery
(p50, p99, p99.9) before, during and after, the reason codes, and the broker's CPU share. The broker, with what
it hashes, has one core; the traffic and, behind it, the flood the other.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from gateway.auth import Passwords
from tests import wire_format as mqtt
from tests.bench.applications import live
from tests.bench.measuring import Bench, cores, pinned
from tests.harness import Broker

WRONG: Final = mqtt.connect("guess", 5, username="operator", password="wrong")


def measure(rate: int, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        bench, data = Bench(Path(folder)), Path(folder) / "data"
        Passwords(data / "passwd").add("operator", b"secret")
        broker = Broker(data, {"allow_anonymous": True})
        with pinned(cores()[0]):
            broker.start()
        with broker:
            live(bench, broker, 1000)
            before = live(bench, broker, round(seconds * 1000))
            line = [str(bench.load), "logins", f"port={broker.port}", f"rate={rate}", f"run_ms={round(seconds * 1000)}"]
            with pinned(cores()[1]):
                flood = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert flood.stdin is not None
            flood.stdin.write(WRONG)
            flood.stdin.close()
            cpu, at = broker.cpu_s(), time.monotonic()
            during = live(bench, broker, round(seconds * 1000))
            share = (broker.cpu_s() - cpu) / (time.monotonic() - at)
            assert flood.stdout is not None
            codes = flood.stdout.read()
            flood.wait()
            after = live(bench, broker, round(seconds * 1000))
    return {
        "before_us": before,
        "during_us": during,
        "after_us": after,
        "p99_ratio": round(2 * during[1] / (before[1] + after[1]), 2),
        "broker_cpu": round(share, 2),
        "codes": json.loads(codes),
    }


if __name__ == "__main__":
    given = [*sys.argv[1:], *("1000", "10")[len(sys.argv) - 1 :]]
    print(json.dumps(measure(int(given[0]), float(given[1]))))
