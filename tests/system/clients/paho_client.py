"""paho-mqtt as a real client (see drivers.py).

One thread: publish() from a second one can write between the connect and the resending, in front of older messages.
"""

import contextlib
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

IN_FLIGHT = 50


def say(*words: object) -> None:
    print(*words, flush=True)


class Client(paho.Client):
    """paho without one fault: after a failed attempt to reconnect it forgets that it had released a message.

    It would then publish the message again, and a broker that has seen the PUBREL must take that for a new one.
    """

    def _messages_reconnect_reset_out(self) -> None:
        released = [one for one in self._out_messages.values() if one.state == paho.mqtt_ms_resend_pubrel]
        super()._messages_reconnect_reset_out()
        for one in released:
            one.state = paho.mqtt_ms_resend_pubrel


def turn(client: paho.Client) -> None:
    """Handle what is there; after a loss connect again, for as long as it takes."""
    if client.loop(0.005) != paho.MQTT_ERR_SUCCESS:
        time.sleep(0.1)
        with contextlib.suppress(OSError):
            client.reconnect()


def publish(client: paho.Client, name: str, topic: str, qos: int, stop: Path, rate: float) -> None:
    numbers: dict[int, int] = {}  # mid -> number
    client.on_publish = lambda _client, _data, mid, *_: say("A", numbers.pop(mid))
    for number in itertools.count(1):
        due = time.monotonic() + 1 / rate
        while time.monotonic() < due or len(numbers) >= IN_FLIGHT or not client.is_connected():
            turn(client)
        if stop.exists():
            break
        say("S", number)
        numbers[client.publish(f"{topic}/{number % 3}", f"{name} {number}", qos).mid] = number
    while numbers:
        turn(client)
    say("DONE")


def main() -> None:
    mode, port, name, topic, qos, stop, rate = sys.argv[1:]
    client = Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)

    def on_connect(_client: Any, _data: Any, flags: Any, code: Any, *_: Any) -> None:
        say("C", int(flags.session_present), code)
        if mode == "sub" and not flags.session_present:
            client.subscribe(topic, int(qos))

    client.on_connect = on_connect
    client.on_subscribe = lambda *_: say("READY")
    client.on_message = lambda _client, _data, message: say("R", message.payload.decode())
    client.connect("127.0.0.1", int(port))
    if mode == "pub":
        publish(client, name, topic, int(qos), Path(stop), float(rate))
    while not Path(stop).exists():
        turn(client)
    client.disconnect()


if __name__ == "__main__":
    main()
