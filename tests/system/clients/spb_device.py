"""A Sparkplug edge node as a process: KIND PORT GROUP NODE INTERVAL_MS KEEP_ALIVE_S STATE_FILE.

It counts up at its interval whether it is connected or not. Kinds: ``paho1`` and ``paho0`` publish with paho-mqtt at
QoS 1 and 0; ``native`` at QoS 0, and keeps what it makes while away; ``forgetful`` at QoS 1, and never sends again;
``journal`` at QoS 1, and keeps what is not acknowledged in its state file. Prints ``C`` for each connection.
"""

import contextlib
import json
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode
from tests import wire_format as mqtt

RETRY_S = 0.2


class Node:
    """Counter, seq and bdSeq, and the payloads that carry them."""

    def __init__(self, group: str, node: str, count: int = 0) -> None:
        self.group, self.node, self.count = group, node, count
        self.seq = self.bdseq = 0

    def topic(self, type: str) -> str:
        return f"spBv1.0/{self.group}/{type}/{self.node}"

    def will(self) -> bytes:
        self.bdseq = (self.bdseq + 1) % 256
        return encode(Payload(now_ms(), [Metric("bdSeq", datatype=DataType.Int64, value=self.bdseq)]))

    def birth(self) -> bytes:
        self.seq = 0
        metrics = [
            Metric("bdSeq", datatype=DataType.Int64, value=self.bdseq),
            Metric("Node Control/Rebirth", datatype=DataType.Boolean, value=False),
            Metric("Properties/Hardware Make", datatype=DataType.String, value="Acme"),
            Metric("Counter", alias=1, datatype=DataType.Int64, value=self.count),
        ]
        return encode(Payload(now_ms(), metrics, 0))

    def data(self, count: int, made: int, historical: bool = False) -> bytes:
        self.seq = (self.seq + 1) % 256
        metric = Metric(None, 1, made, DataType.Int64, count, is_historical=historical)
        return encode(Payload(made, [metric], self.seq), with_datatypes=False)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def say(*words: object) -> None:
    print(*words, flush=True)


def with_paho(node: Node, port: int, interval_s: float, keep_alive_s: int, qos: int, keeps: bool) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, node.node, clean_session=True)
    history: list[tuple[int, int]] = []
    born = False

    def on_connect(*_: Any) -> None:
        nonlocal born
        say("C")
        client.publish(node.topic("NBIRTH"), node.birth(), 0)
        for count, made in history:
            client.publish(node.topic("NDATA"), node.data(count, made, historical=True), 0)
        history.clear()
        born = True

    def connect() -> None:
        client.will_set(node.topic("NDEATH"), node.will(), 1)
        with contextlib.suppress(OSError):
            client.connect("127.0.0.1", port, keep_alive_s)

    client.on_connect = on_connect
    connect()
    due = time.monotonic()
    while True:
        if client.loop(0.01) != paho.MQTT_ERR_SUCCESS:
            born = False
            time.sleep(RETRY_S)
            connect()
        while time.monotonic() >= due:
            due += interval_s
            node.count += 1
            if keeps and not born:
                history.append((node.count, now_ms()))
            elif qos or born:
                client.publish(node.topic("NDATA"), node.data(node.count, now_ms()), qos)


def by_hand(node: Node, port: int, interval_s: float, keep_alive_s: int, journal: Path | None) -> None:
    """QoS 1 on a bare socket; with a journal what has no PUBACK is on disk and comes again."""
    open_: dict[int, tuple[int, int]] = {}  # packet id -> (count, made)
    if journal is not None and journal.exists():
        kept = json.loads(journal.read_text())
        node.count, open_ = kept["count"], {int(key): tuple(value) for key, value in kept["open"].items()}
    pid = max(open_, default=0)
    due = time.monotonic()
    link: socket.socket | None = None
    data, heard, pinged = bytearray(), 0.0, 0.0
    while True:
        if link is None:
            link = _connected(node, port, keep_alive_s)
            heard = pinged = time.monotonic()
            data.clear()
            if link is not None:
                for packet_id, (count, made) in sorted(open_.items(), key=lambda item: item[1]):
                    _send(link, _publish(node, count, made, packet_id, True))
        while time.monotonic() >= due:
            due += interval_s
            node.count += 1
            pid, made = pid % 65_535 + 1, now_ms()
            if journal is not None:
                open_[pid] = (node.count, made)
                journal.write_text(json.dumps({"count": node.count, "open": open_}))
            if link is not None:
                _send(link, _publish(node, node.count, made, pid, False))
        now = time.monotonic()
        if link is None:
            time.sleep(RETRY_S)
            continue
        if now - pinged >= keep_alive_s / 2:
            pinged = now
            _send(link, b"\xc0\0")
        if now - heard > 1.5 * keep_alive_s or not _read(link, data):
            link.close()
            link = None
            continue
        while (size := mqtt.frame_size(data)) and len(data) >= size:
            packet = mqtt.parse(bytes(data[:size]), 4)
            del data[:size]
            heard = now
            if packet.type == mqtt.PUBACK:
                open_.pop(packet["pid"], None)


def _connected(node: Node, port: int, keep_alive_s: int) -> socket.socket | None:
    will = mqtt.Will(node.topic("NDEATH"), node.will(), 1)
    try:
        link = socket.create_connection(("127.0.0.1", port), 2)
        link.sendall(mqtt.connect(node.node, keepalive=keep_alive_s, will=will))
        answer = link.recv(4)
    except OSError:
        return None
    if answer != b"\x20\x02\0\0":
        link.close()
        return None
    say("C")
    _send(link, mqtt.publish(node.topic("NBIRTH"), node.birth(), 0, False, False, 0, 4))
    return link


def _publish(node: Node, count: int, made: int, pid: int, dup: bool) -> bytes:
    # what comes again must be what it was: its seq goes with its number
    node.seq = (count - 1) % 256
    return mqtt.publish(node.topic("NDATA"), node.data(count, made), 1, False, dup, pid, 4)


def _send(link: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # that the link is gone shows when it is read
        link.sendall(data)


def _read(link: socket.socket, data: bytearray) -> bool:
    """False when the link has ended."""
    if select.select([link], [], [], 0.01)[0]:
        try:
            more = link.recv(65_536)
        except OSError:
            return False
        data += more
        return bool(more)
    return True


def main() -> None:
    kind, port, group, name, interval_ms, keep_alive_s, state = sys.argv[1:]
    node = Node(group, name)
    interval_s = int(interval_ms) / 1000
    if kind in ("forgetful", "journal"):
        by_hand(node, int(port), interval_s, int(keep_alive_s), Path(state) if kind == "journal" else None)
    else:
        with_paho(node, int(port), interval_s, int(keep_alive_s), int(kind == "paho1"), kind == "native")


main()
