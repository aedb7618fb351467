"""The process of the status page: ``python -m gateway.web.main`` with the sources of the settings, as JSON.

The broker starts it beside itself and ends it by ending its standard input.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from gateway import process
from gateway.access import Access as AccessFile
from gateway.access import AccessError
from gateway.auth import AuthError, Passwords
from gateway.log import Log, LogHandler
from gateway.net.tls import TlsError
from gateway.settings.table import Settings, SettingsError, Sources, load
from gateway.tokens import TokenError
from gateway.web.access import Access, KeyFileError, read_key
from gateway.web.app import application
from gateway.web.control import Control
from gateway.web.poll import SESSIONS, Poll
from gateway.web.roles import Roles
from gateway.web.serving import Serving
from gateway.web.site import Site

NICENESS: Final = 10  # who looks may wait, messages do not


def main(told: str) -> int:
    """Serve with the sources that the broker was given; exit status 0, 1 with a line on stderr, 2 for bad settings."""
    config, sets, options = json.loads(told)
    sources = Sources(Path(config) if config else None, tuple(sets), tuple((name, value) for name, value in options))
    try:
        settings = load(sources)
    except SettingsError as e:
        print(f"forebay: {e}", file=sys.stderr)
        return 2
    return run(settings, companion=True)


def run(settings: Settings, companion: bool = False) -> int:
    """Serve until SIGTERM, SIGINT or, as a companion, the end of the standard input; the exit status."""
    os.umask(0o077)
    if companion:
        # Ctrl-C is for the broker, which ends this. In a session of its own Linux would give it a full share of a core.
        os.setpgid(0, 0)
        os.nice(NICENESS)
    log = Log(sys.stderr, settings.log_level, settings.log_format)
    logging.getLogger().addHandler(LogHandler(log))
    try:
        with asyncio.Runner(loop_factory=process.loop_factory()) as runner:
            runner.run(_serve(settings, log, companion))
    except (TlsError, AuthError, AccessError, TokenError, KeyFileError) as error:
        log.error(f"status page: {error}")
        return 1
    return 0


async def _serve(settings: Settings, log: Log, companion: bool) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if companion:
        loop.add_reader(sys.stdin.fileno(), _on_input, stopping)
    passwords = Passwords(settings.passwords)
    key = read_key(settings.data_dir / "web.key")
    roles = Roles(AccessFile(settings.access_file))
    access = Access(passwords, roles, key, settings.http_login == "always", time.monotonic)
    poll = Poll(Control(settings.control_socket), max(SESSIONS, settings.http_session_metrics))
    site = Site(settings, access, poll, Control(settings.control_socket), log)
    serving = Serving(settings, application(site), log)
    polling = asyncio.create_task(poll.run())
    try:
        await serving.run(stopping)
    finally:
        polling.cancel()
        access.close()


def _on_input(stopping: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stopping.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
