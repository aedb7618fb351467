"""A broker with its status page, asked over HTTP as a program would ask it."""

import asyncio
import base64
import http.client
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

from prometheus_client.parser import text_string_to_metric_families

from gateway.cli.control import ask
from tests.harness import Broker, free_port

WAIT_S = 30.0


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str


def wait_for(true: Callable[[], object], what: str, timeout: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


async def until(true: Callable[[], object], what: str) -> None:
    """The same on an event loop."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


@final
class Page:
    """``port`` is the one of the HTTP listener."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.port, self.tls, self.host = port, tls, host
        self.cookie = ""

    def ask(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own; the cookie that came last goes with it."""
        given = {**({"Cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        if body is not None:
            given.setdefault("Content-Type", "application/x-www-form-urlencoded")
        if self.tls is None:
            link = http.client.HTTPConnection(self.host, self.port, timeout=WAIT_S)
        else:
            link = http.client.HTTPSConnection(self.host, self.port, timeout=WAIT_S, context=self.tls)
        try:
            link.request(method, path, body, given)
            answer = link.getresponse()
            text = answer.read().decode()
        finally:
            link.close()
        cookie = answer.headers.get("set-cookie")
        if cookie is not None:
            self.cookie = cookie.partition(";")[0]
        return Answer(answer.status, answer.headers, text)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, headers: Mapping[str, str] | None = None, **form: str) -> Answer:
        return self.ask("POST", path, urllib.parse.urlencode(form), headers)

    def wait(self) -> "Page":
        """Until it answers."""

        def answers() -> bool:
            try:
                return self.get("/healthz").status == 200
            except (OSError, http.client.HTTPException):
                return False

        wait_for(answers, "the status page does not answer")
        return self

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every sample, by name and sorted labels; through Prometheus' parser."""
        answer = self.get("/metrics")
        assert answer.status == 200, answer.text
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def broker_with_page(data_dir: Path, settings: Mapping[str, object] | None = None, **more: Any) -> tuple[Broker, Page]:
    """Both not started; the page comes with the broker."""
    port = free_port()
    broker = Broker(data_dir, {"http.listen": f"127.0.0.1:{port}", **(settings or {})}, **more)
    return broker, Page(port)


def status_of(broker: Broker) -> dict[str, Any]:
    answer: dict[str, Any] = ask(broker.data_dir / "control.sock", {"cmd": "status"})
    return answer
