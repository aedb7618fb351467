"""The asking side of the control socket: one JSON object per line each way."""

import json
import socket
from pathlib import Path
from typing import Any, Self, final

from gateway.net.control import ShortPath, elsewhere

_TIMEOUT_S = 10.0


class NoBrokerError(Exception):
    """Nobody answers at the control socket."""


class RefusedError(Exception):
    """The broker answered that it cannot do what was asked."""


def ask(path: Path, request: dict[str, Any]) -> Any:
    """The broker's result for one request. Raises NoBrokerError or RefusedError."""
    with Conversation(path) as talk:
        return talk.ask(request)


@final
class Conversation:
    """Several requests on one connection; its end ends what they have begun. Raises NoBrokerError and RefusedError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._link = socket.socket(socket.AF_UNIX)
        self._lines = self._link.makefile("rb")

    def __enter__(self) -> Self:
        self._link.settimeout(_TIMEOUT_S)
        try:
            try:
                self._connect(self._path)
            except OSError:
                if not elsewhere(self._path).is_socket():
                    raise
                self._connect(elsewhere(self._path))
        except OSError as error:
            self._close()
            raise self._nobody(error) from None
        return self

    def _connect(self, path: Path) -> None:
        with ShortPath(path) as short:
            self._link.connect(short)

    def __exit__(self, *_: object) -> None:
        self._close()

    def ask(self, request: dict[str, Any]) -> Any:
        """The result of one request."""
        try:
            self._link.sendall(json.dumps(request).encode() + b"\n")
            answer = self._lines.readline()
        except OSError as error:
            raise self._nobody(error) from None
        if not answer.endswith(b"\n"):
            raise NoBrokerError(f"{self._path}: the broker closed the connection without an answer")
        response = json.loads(answer)
        if not response["ok"]:
            raise RefusedError(response["error"])
        return response["result"]

    def _close(self) -> None:
        self._lines.close()
        self._link.close()

    def _nobody(self, error: OSError) -> NoBrokerError:
        reason = error.strerror or str(error)
        folder = self._path.parent
        return NoBrokerError(f"no broker is running with {folder} as its data folder ({self._path}: {reason})")
