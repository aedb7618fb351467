"""A persistent QoS 1 collector of spBv1.0/# as a process: PORT CLIENT_ID FILE. It ends when its input does.

Each message with an envelope becomes a record in the file, and only then its PUBACK leaves; commands have none. It
comes back after each loss, and prints READY when it has subscribed.
"""

import select
import socket
import sys
import time
from pathlib import Path
from typing import BinaryIO

from tests import wire_format as mqtt
from tests.drill.record import LATE, RECORD, digest

RETRY_S = 0.05


def connected(port: int, client_id: str) -> socket.socket | None:
    """Connected with its session, or None when nobody listens."""
    try:
        link = socket.create_connection(("127.0.0.1", port), 5)
        link.sendall(mqtt.connect(client_id, 5, False, 0, props=[(mqtt.SESSION_EXPIRY, 86_400)]))
    except OSError:
        return None
    return link


def record(packet: mqtt.Packet, now: int) -> bytes:
    """What is written down of a PUBLISH; nothing when it has no envelope."""
    envelope = dict(value for key, value in packet.props if key == mqtt.USER_PROPERTY)
    if "forebay-id" not in envelope:
        assert "/NCMD/" in packet["topic"], packet
        return b""
    flags = int(envelope["forebay-qos"]) << 4 | (LATE if envelope["forebay-late"] == "1" else 0)
    id, received = int(envelope["forebay-id"]), int(envelope["forebay-received"])
    assert packet["qos"] == 1 and not packet["retain"], packet
    return RECORD.pack(id, received, digest(packet["topic"], packet["payload"]), now, flags)


def collect(link: socket.socket, file: BinaryIO) -> bool:
    """Until the connection (True) or the input (False) ends."""
    data = bytearray()
    while True:
        ready, _, _ = select.select([link, sys.stdin], [], [])
        if sys.stdin in ready and not sys.stdin.read(1):
            return False
        if link not in ready:
            continue
        try:
            more = link.recv(1_048_576)
        except ConnectionError:
            more = b""
        if not more:
            return True
        data += more
        now, records, answers = time.monotonic_ns(), bytearray(), bytearray()
        while (size := mqtt.frame_size(data)) and len(data) >= size:
            packet = mqtt.parse(bytes(data[:size]), 5)
            del data[:size]
            if packet.type == mqtt.PUBLISH:
                records += record(packet, now)
                answers += mqtt.ack(mqtt.PUBACK, packet["pid"], 5) if packet["qos"] else b""
            elif packet.type == mqtt.CONNACK and not packet["present"]:
                answers += mqtt.subscribe([("spBv1.0/#", 1)], 1, 5)
            elif packet.type == mqtt.SUBACK:
                print("READY", flush=True)
        file.write(records)
        file.flush()
        try:
            link.sendall(answers)
        except OSError:
            return True


def main() -> None:
    port, client_id, path = sys.argv[1:]
    with Path(path).open("ab") as file:
        while True:
            link = connected(int(port), client_id)
            if link is None:
                if select.select([sys.stdin], [], [], RETRY_S)[0] and not sys.stdin.read(1):
                    return
                continue
            with link:
                if not collect(link, file):
                    link.sendall(mqtt.disconnect(5))
                    return


if __name__ == "__main__":
    main()
