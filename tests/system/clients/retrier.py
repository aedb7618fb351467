"""A consumer for the crash tests: the first attempt at each message is retry_after, the second is acknowledged.

``retrier.py PORT CLIENT_ID TOPIC QOS JOURNAL NOTES STEP``: NOTES gets a line for each call, ``payload attempt``. At
STEP ("" = never) the process kills itself: ``handler``, ``before add``, ``after add``, ``before remove``,
``after remove`` (the last four are the journal's).
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from gateway.consumer.app import Consumer, Message, Outcome, retry_after
from gateway.consumer.journal import Journal

DELAY_S = 1


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def around(method: Callable[..., Any], name: str, step: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if step == f"before {name}":
            die()
        result = method(*arguments)
        if step == f"after {name}":
            die()
        return result

    return call


def main(port: int, client_id: str, topic: str, qos: int, journal: str, notes: str, step: str) -> None:
    app = Consumer(f"mqtt://127.0.0.1:{port}", client_id=client_id, journal=journal, shutdown_timeout=5)
    noted = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for name in ("add", "remove"):
        setattr(Journal, name, around(getattr(Journal, name), name, step))

    @app.subscribe(topic, qos=qos, max_attempts=9)
    async def handler(message: Message[bytes]) -> Outcome | None:
        os.write(noted, b"%b %d\n" % (message.payload, message.attempt))
        if step == "handler":
            die()
        return retry_after(DELAY_S) if message.attempt == 1 else None

    asyncio.run(app.run())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6], sys.argv[7])
