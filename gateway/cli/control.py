"""The asking side of the control socket: one JSON object per line each way."""

import json
import socket
from pathlib import Path
from typing import Any

from gateway.net.control import ShortPath

_TIMEOUT_S = 10.0


class NoBrokerError(Exception):
    """Nobody answers at the control socket."""


class RefusedError(Exception):
    """The broker answered that it cannot do what was asked."""


def ask(path: Path, request: dict[str, str]) -> Any:
    """The broker's result for one request. Raises NoBrokerError or RefusedError."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(_TIMEOUT_S)
            with ShortPath(path) as short:
                link.connect(short)
            link.sendall(json.dumps(request).encode() + b"\n")
            with link.makefile("rb") as lines:
                answer = lines.readline()
    except OSError as error:
        reason = error.strerror or str(error)
        raise NoBrokerError(f"no broker is running with {path.parent} as its data folder ({path}: {reason})") from None
    if not answer.endswith(b"\n"):
        raise NoBrokerError(f"{path}: the broker closed the connection without an answer")
    response = json.loads(answer)
    if not response["ok"]:
        raise RefusedError(response["error"])
    return response["result"]
