"""The engine that the settings name; what it is made of is imported only then."""

import contextlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from gateway.replacing import replace
from gateway.settings.table import Settings
from gateway.store.engine import Engine, EngineRefused
from gateway.store.login import Files


def make(settings: Settings, lost: Callable[[], None]) -> Engine:
    """``lost`` is called when its connection ends. Raises EngineRefused with one line."""
    name = settings.application_log_engine
    try:
        return _kafka(settings) if name == "kafka" else _nats(settings, lost)
    except ImportError as e:
        text = f'application_log.engine = "{name}" needs another package: pip install "forebay[{name}]" ({e})'
        raise EngineRefused(text) from e
    except OSError as e:
        raise EngineRefused(f"application_log: {e}") from e


def _nats(settings: Settings, lost: Callable[[], None]) -> Engine:
    from gateway.store.nats import NatsEngine, NatsOptions

    servers = settings.application_log_nats_servers
    options = NatsOptions(
        servers=servers,
        identity=identity(settings.data_dir),
        stream=settings.application_log_nats_stream,
        replicas=settings.application_log_nats_replicas,
        max_bytes=settings.application_log_nats_max_bytes,
        monitors=settings.application_log_nats_monitors,
        timeout_s=settings.application_log_engine_timeout,
        login=_login(settings, any(server.startswith("tls://") for server in servers)),
    )
    return NatsEngine(options, lost)


def _kafka(settings: Settings) -> Engine:
    from gateway.store.kafka import KafkaEngine
    from gateway.store.kafka_options import KafkaOptions

    options = KafkaOptions(
        servers=settings.application_log_kafka_servers,
        prefix=settings.application_log_kafka_prefix,
        pack=settings.application_log_kafka_pack,
        replication=settings.application_log_kafka_replication,
        retention_ms=1000 * settings.application_log_max_age or -1,
        retention_bytes=settings.application_log_max_bytes or -1,
        packet_bytes=settings.limits().max_packet_bytes,
        timeout_s=settings.application_log_engine_timeout,
        mechanism=settings.application_log_kafka_mechanism,
        login=_login(settings, settings.application_log_kafka_tls),
    )
    return KafkaEngine(options)


def _login(settings: Settings, tls: bool) -> Files:
    return Files(
        user=settings.application_log_engine_user,
        password=settings.application_log_engine_password_file,
        creds=settings.application_log_nats_creds if settings.application_log_engine == "nats" else None,
        tls=tls,
        ca=settings.application_log_engine_ca,
        cert=settings.application_log_engine_cert,
        key=settings.application_log_engine_key,
    )


def identity(folder: Path) -> str:
    """Of this gateway among those that share an engine: made once, kept in its data folder. Raises OSError."""
    path = folder / "engine-identity"
    with contextlib.suppress(FileNotFoundError):
        known = path.read_text(errors="replace").strip()
        if re.fullmatch(r"[0-9a-f]{8}", known):
            return known
    made = secrets.token_hex(4)
    replace(path, f"{made}\n".encode())
    return made
