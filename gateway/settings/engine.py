"""The settings of an engine that keeps the log of the APPLICATIONs (docs/engines.md)."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Final, final

from gateway.core.topics import check_filter, split_share
from gateway.hosts import is_host
from gateway.settings.application import ApplicationSettings
from gateway.settings.entry import setting
from gateway.settings.kinds import Choice, Duration, FilePath, Integer, Size
from gateway.settings.uplink_kinds import Text


@final
class Filters:
    """A list of topic filters, none of them shared."""

    allowed = 'a list of topic filters such as ["plant/#"], none of $share'

    def parse(self, value: object) -> list[str]:
        if not isinstance(value, list) or not value:
            raise ValueError
        return [self._one(item) for item in value]

    def _one(self, item: object) -> str:
        if not isinstance(item, str) or split_share(item)[0] or not check_filter(item, 0):
            raise ValueError
        return item

    def from_text(self, text: str) -> object:
        return [part.strip() for part in text.split(",") if part.strip()]

    def show(self, value: object) -> str:
        return json.dumps(value)


@final
class Servers:
    """A list of addresses of one of these schemes; without schemes HOST:PORT. In text with commas."""

    def __init__(self, example: str, schemes: tuple[str, ...] = (), least: int = 1) -> None:
        self.allowed = f'a list of addresses such as ["{example}"]'
        before = f"(?:{'|'.join(schemes)})://" if schemes else ""
        self._pattern: Final = re.compile(before + r"(?:\[[0-9A-Fa-f:.]+\]|([^\s:/,@\[\]]+)):(\d{1,5})")
        self._least = least

    def parse(self, value: object) -> list[str]:
        if not isinstance(value, list) or len(value) < self._least:
            raise ValueError
        for item in value:
            found = self._pattern.fullmatch(item) if isinstance(item, str) else None
            if found is None or not 0 < int(found[2]) < 65536 or (found[1] and not is_host(found[1])):
                raise ValueError
        return list(value)

    def from_text(self, text: str) -> object:
        return [part.strip() for part in text.split(",") if part.strip()]

    def show(self, value: object) -> str:
        return json.dumps(value)


@dataclasses.dataclass(kw_only=True, slots=True)
class EngineSettings(ApplicationSettings):
    """Part of ``Settings``."""

    application_log_engine: str = setting(
        "application_log.engine",
        Choice("sqlite", "nats", "kafka"),
        "sqlite",
        "What keeps the log of the APPLICATIONs: the store here, NATS JetStream or Kafka.",
    )
    application_log_capture: list[str] = setting(
        "application_log.capture",
        Filters(),
        ["#"],
        "Topics that APPLICATIONs get from that engine; all others from the store.",
    )
    application_log_engine_timeout: int = setting(
        "application_log.engine_timeout",
        Duration(1),
        "5s",
        "The engine counts as down when it has not answered for so long; the store here takes its place until it does.",
    )
    application_log_engine_user: str = setting(
        "application_log.engine_user",
        Text("a user name, or none", re.compile(r"[^\s]*")),
        "",
        "User name at the engine's servers.",
    )
    application_log_engine_password_file: Path | None = setting(
        "application_log.engine_password_file",
        FilePath(),
        "",
        "File with the password of that user; like those of TLS it is read at each connection.",
    )
    application_log_engine_ca: Path | None = setting(
        "application_log.engine_ca",
        FilePath(),
        "",
        "Certificates (PEM) that the servers' must come from; empty = those of the system.",
    )
    application_log_engine_cert: Path | None = setting(
        "application_log.engine_cert",
        FilePath(),
        "",
        "Certificate (PEM) of this gateway.",
    )
    application_log_engine_key: Path | None = setting(
        "application_log.engine_key",
        FilePath(),
        "",
        "Its key (PEM).",
    )
    application_log_nats_servers: list[str] = setting(
        "application_log.nats.servers",
        Servers("nats://127.0.0.1:4222", ("nats", "tls")),
        ["nats://127.0.0.1:4222"],
        "Servers of the NATS cluster; tls:// = TLS.",
    )
    application_log_nats_stream: str = setting(
        "application_log.nats.stream",
        Text("letters, digits, - and _", re.compile(r"[A-Za-z0-9_-]{1,64}")),
        "FOREBAY",
        "Name of the stream, and first token of its subjects; the same at all gateways that share applications.",
    )
    application_log_nats_replicas: int = setting(
        "application_log.nats.replicas",
        Integer(1, 5),
        3,
        "Servers that keep each message of the stream.",
    )
    application_log_nats_max_bytes: int = setting(
        "application_log.nats.max_bytes",
        Size(words={"unlimited": 0}),
        "unlimited",
        "Size of the stream; a full one takes nothing new, which then waits in the store here.",
    )
    application_log_nats_monitors: list[str] = setting(
        "application_log.nats.monitors",
        Servers("http://127.0.0.1:8222", ("http", "https"), 0),
        [],
        "Monitoring addresses of the servers: there it is looked up whether they sync each message to the disk.",
    )
    application_log_nats_creds: Path | None = setting(
        "application_log.nats.creds",
        FilePath(),
        "",
        "Credentials file (.creds) in place of user and password.",
    )
