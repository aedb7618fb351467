"""mosquitto_pub and mosquitto_sub as real clients (see drivers.py).

mosquitto_pub reconnects by itself, but keeps nothing between its runs: should one end, what it had not seen
acknowledged is submitted again, in order, by the next, which is another client. Its debug output names each PUBACK and
PUBCOMP; packet ids count the lines of a run.
"""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

IN_FLIGHT = 50
ACKNOWLEDGED = re.compile(r"received (?:PUBACK|PUBCOMP) \(Mid: (\d+)")


def say(*words: object) -> None:
    # in one piece: two threads speak
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Publisher:
    def __init__(self, port: str, name: str, topic: str, qos: int, stop: Path, rate: float) -> None:
        options = ["-p", port, "-t", topic, "-q", str(qos)]
        self.command = ["stdbuf", "-oL", "mosquitto_pub", "-h", "127.0.0.1", "-d", "-c", "-l", *options, "-i"]
        self.runs = 0
        self.name, self.stop, self.rate = name, stop, rate
        self.number = 0
        self.unsettled: list[int] = []
        self.lock = threading.Lock()

    def run_once(self) -> None:
        """One mosquitto_pub until it ends or everything is acknowledged after the stop."""
        self.runs += 1
        process = subprocess.Popen(
            [*self.command, f"{self.name}-{self.runs}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, bufsize=1,
        )  # fmt: skip
        sent: list[int] = []
        over, connected = threading.Event(), threading.Event()

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                found = ACKNOWLEDGED.search(line)
                if "CONNACK" in line:
                    connected.set()
                if found:
                    with self.lock:
                        number = sent[int(found[1]) - 1]
                        self.unsettled.remove(number)
                        say("A", number)
            over.set()

        threading.Thread(target=listen, daemon=True).start()
        again = list(self.unsettled)
        try:
            while not over.is_set():
                if not connected.wait(0.05):
                    continue
                with self.lock:
                    busy = len(self.unsettled) if not again else 0
                if not again and self.stop.exists():
                    if not busy:
                        break
                    time.sleep(0.02)
                    continue
                if busy >= IN_FLIGHT:
                    time.sleep(0.01)
                    continue
                time.sleep(1 / self.rate)
                with self.lock:
                    if again:
                        number = again.pop(0)
                    else:
                        self.number = number = self.number + 1
                        self.unsettled.append(number)
                    sent.append(number)
                say("S", number)
                assert process.stdin is not None
                process.stdin.write(f"{self.name} {number}\n")
        except BrokenPipeError:
            pass
        process.kill()
        over.wait()
        process.wait()


def main() -> None:
    mode, port, name, topic, qos, stop, rate = sys.argv[1:]
    if mode == "sub":
        line = [
            "mosquitto_sub",
            "-h",
            "127.0.0.1",
            "-d",
            "-p",
            port,
            "-i",
            name,
            "-t",
            topic,
            "-q",
            qos,
            "-c",
            "-F",
            "R %p",
        ]
        os.execvp("stdbuf", ["stdbuf", "-oL", *line])
    publisher = Publisher(port, name, f"{topic}/0", int(qos), Path(stop), float(rate))
    while True:
        publisher.run_once()
        if Path(stop).exists() and not publisher.unsettled:
            break
        time.sleep(0.1)
    say("DONE")


if __name__ == "__main__":
    main()
