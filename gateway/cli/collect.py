"""``forebay collect``: a collector to begin with."""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Final, final

import typer

from gateway.cli.connecting import HostOption, PortOption, TlsOption, UserOption, password_of, run_client, tls_with
from gateway.cli.options import UsageError
from gateway.cli.user import PasswordFileOption
from gateway.client import Client, Subscription
from gateway.collect.collector import Collector, Identity
from gateway.collect.files import FileError, file_at
from gateway.core.limits import NEVER
from gateway.settings.kinds import Duration

_KEEPALIVE_S: Final = 30
_LEAVE_S: Final = 10.0


def collect(
    filters: list[str],
    into: Annotated[
        Path, typer.Option("--into", "-o", metavar="FILE", help="Ends in .db (SQLite) or .jsonl.", show_default=False)
    ],
    expiry: Annotated[
        str, typer.Option("--expiry", help="How long the broker keeps what comes while away: 2h, 7d, never.")
    ] = "never",
    batch: Annotated[int, typer.Option("--batch", min=1, max=30_000, help="Messages of one commit at most.")] = 1000,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=0, help="Leave after so many messages; 0 = once subscribed.")
    ] = None,
    progress: Annotated[
        float | None,
        typer.Option(
            "--progress",
            min=0,
            metavar="SECONDS",
            help="Between progress lines; 0 = none.",
            show_default="1, or 10 where stderr is no terminal",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as JSON at the end.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
) -> None:
    """Take messages into a file until Ctrl-C, and acknowledge each once it is on disk there.

    The broker keeps the session, so that nothing is lost while this is away. Its client id is in FILE.id.
    """
    span = Duration(1, words={"never": NEVER})
    try:
        expiry_s = span.parse(expiry)
    except ValueError:
        raise UsageError(f'--expiry "{expiry}": expected {span.allowed}') from None
    password, tls = password_of(user, password_file), tls_with(tls_ca)
    identity = Identity(into)
    try:
        file = file_at(into)
        client_id = identity.take()
        file.open()
    except FileError as error:
        raise UsageError(str(error)) from None

    async def work() -> None:
        collector = Collector(file, batch, _complain, count)
        witness = _Witness(expiry_s, is_known=not identity.is_new)
        client = Client(
            host, port, client_id=client_id, clean=False, expiry_s=expiry_s, receive_maximum=2 * batch,
            keepalive_s=_KEEPALIVE_S, username=user, password=password, tls=tls, deliver=collector.deliver,
            on_connected=witness,
            on_lost=lambda why: _complain(f"{why}; trying again"),
        )  # fmt: skip
        collector.attach(client)
        witness.client = client
        every_s = progress if progress is not None else 1.0 if sys.stderr.isatty() else 10.0
        await _collect(collector, client, filters, every_s, only_subscribe=count == 0)
        if as_json:
            totals = collector.totals
            typer.echo(json.dumps({"stored": totals.stored, "repeated": totals.repeated}))

    try:
        run_client(work())
    finally:
        file.close()
        identity.release()


async def _collect(
    collector: Collector, client: Client, filters: list[str], progress_s: float, *, only_subscribe: bool
) -> None:
    """Until it is over. Raises RefusedError."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, collector.stop)
    await client.subscribe([Subscription(name) for name in filters])
    storing = asyncio.ensure_future(collector.run())
    others = [asyncio.ensure_future(one) for one in (client.run(), _tell(collector, progress_s))]
    if only_subscribe:
        others.append(asyncio.ensure_future(_stop_when_connected(collector, client)))
    try:
        await asyncio.wait({storing, others[0]}, return_when=asyncio.FIRST_COMPLETED)
        collector.stop()
        await asyncio.wait({storing}, timeout=_LEAVE_S)
    finally:
        await client.close()
        for task in (storing, *others[1:]):
            task.cancel()
        results = await asyncio.gather(storing, *others, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _stop_when_connected(collector: Collector, client: Client) -> None:
    await client.connected.wait()
    collector.stop()


@final
class _Witness:
    """Sees each connection's beginning, and says what would be lost in silence."""

    def __init__(self, expiry_s: int, *, is_known: bool) -> None:
        self.client: Client
        self._expiry_s, self._is_known = expiry_s, is_known

    def __call__(self, session_present: bool) -> None:
        if self._is_known and not session_present:
            _complain("the broker knows no session of ours: what came since the last connection may be lost")
        self._is_known = True
        granted_s = self.client.peer.session_expiry_s
        if 0 <= granted_s < self._expiry_s:
            _complain(f"the broker keeps what comes while this is away for {granted_s} s only")


def _complain(line: str) -> None:
    typer.echo(f"forebay: {line}", err=True)


@final
class _Pace:
    """Messages a second since the last look."""

    def __init__(self) -> None:
        self._at, self._count = time.monotonic(), 0

    def of(self, count: int) -> float:
        now = time.monotonic()
        pace = (count - self._count) / max(1e-6, now - self._at)
        self._at, self._count = now, count
        return pace


async def _tell(collector: Collector, every_s: float) -> None:
    """Progress lines on stderr; on a terminal one line that changes."""
    if not every_s:
        return
    pace, totals = _Pace(), collector.totals
    start, end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")
    while True:
        await asyncio.sleep(every_s)
        lag = "" if totals.lag_ms < 0 else f", lag {totals.lag_ms / 1000:.1f} s"
        repeated = f", {totals.repeated:,} repeated" if totals.repeated else ""
        sys.stderr.write(f"{start}{totals.stored:,} messages, {pace.of(totals.stored):,.0f}/s{lag}{repeated}{end}")
        sys.stderr.flush()
