"""``forebay pub`` and ``forebay sub``."""

import asyncio
import os
import sys
from typing import Annotated, final

import typer

from gateway.cli.connecting import (
    HostOption,
    PortOption,
    RetryOption,
    TlsOption,
    UserOption,
    password_of,
    run_client,
    tls_with,
    while_open,
)
from gateway.cli.options import UsageError
from gateway.cli.user import PasswordFileOption
from gateway.client import Client, Delivery, RefusedError, Subscription
from gateway.core.limits import NEVER
from gateway.settings.kinds import Duration

_RESUME_S = 300  # how long the broker keeps a QoS 2 publisher that went away

QosOption = Annotated[int, typer.Option("--qos", "-q", min=0, max=2)]
IdOption = Annotated[str, typer.Option("--id", "-i", help="Client id; made up when absent.")]


def pub(
    topic: str,
    message: Annotated[str | None, typer.Argument(help="Absent: each line of the input.", show_default=False)] = None,
    qos: QosOption = 1,
    retain: Annotated[bool, typer.Option("--retain", "-r", help="Keep as the topic's last value.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    client_id: IdOption = "",
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
    retry: RetryOption = 60,
) -> None:
    """Publish, and end when the broker has acknowledged everything (exit code 0)."""
    if not topic or "+" in topic or "#" in topic:
        raise UsageError(f'"{topic}": expected a topic without + and #')
    password = password_of(user, password_file)

    async def work() -> None:
        # QoS 2 goes on where it was only if the broker keeps the session; QoS 1 may simply be sent again.
        expiry_s = _RESUME_S if qos == 2 else 0
        link = Client(
            host, port, client_id=client_id, clean=qos < 2, expiry_s=expiry_s,
            username=user, password=password, tls=tls_with(tls_ca),
        )  # fmt: skip
        await link.open()
        try:
            await while_open(link, _publish_all(link, topic, message, qos, retain), retry)
        finally:
            await link.close(end_session=True)

    run_client(work())


async def _publish_all(link: Client, topic: str, message: str | None, qos: int, retain: bool) -> None:
    """One message, or the lines of the input. Raises RefusedError for the first that the broker refused."""
    waiting: list[asyncio.Future[int]] = []
    if message is not None:
        waiting.append(await link.send(topic, message.encode(), qos, retain))
    else:
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            waiting.append(await link.send(topic, line.rstrip(b"\r\n"), qos, retain))
            waiting = [future for future in waiting if not _is_acknowledged(link, topic, future)]
    for future in waiting:
        await future
        _is_acknowledged(link, topic, future)


def _is_acknowledged(link: Client, topic: str, future: "asyncio.Future[int]") -> bool:
    if not future.done():
        return False
    if future.result() >= 0x80:
        raise RefusedError(f"{link.where}: message to {topic} refused (reason code 0x{future.result():02x})")
    return True


@final
class _Printer:
    """Writes deliveries to the output, at most ``count`` of them."""

    def __init__(self, count: int | None, verbose: bool) -> None:
        self.left = count
        self.verbose = verbose
        self.ended = asyncio.Event()
        self.broken = ""

    def __call__(self, one: Delivery) -> None:
        """A message is acknowledged when it is out, and left to the broker when it is one too many."""
        if self.ended.is_set():
            return
        try:
            prefix = one.topic.encode() + b" " if self.verbose else b""
            sys.stdout.buffer.write(prefix + one.payload + b"\n")
            sys.stdout.buffer.flush()
        except OSError as error:
            self.broken = error.strerror or str(error)
            # the interpreter flushes once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.ended.set()
            return
        one.ack()
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.ended.set()


def sub(
    filters: list[str],
    qos: QosOption = 1,
    persistent: Annotated[
        bool, typer.Option("--persistent", help="Keep the session: what comes while away waits. Needs --id.")
    ] = False,
    expiry: Annotated[str, typer.Option("--expiry", help="How long a kept session waits: 2h, 7d, never.")] = "7d",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=0, help="Leave after so many messages; 0 = once subscribed.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", "-w", min=0, help="Leave after so many seconds.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print the topic before each message.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    client_id: IdOption = "",
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
    retry: RetryOption = 60,
) -> None:
    """Subscribe and print what comes, until Ctrl-C; a message is acknowledged once it is printed."""
    if persistent and not client_id:
        raise UsageError("--persistent: expected --id too, since the session is found again by its client id")
    span = Duration(1, words={"never": NEVER})
    try:
        expiry_s = span.parse(expiry) if persistent else 0
    except ValueError:
        raise UsageError(f'--expiry "{expiry}": expected {span.allowed}') from None
    password = password_of(user, password_file)

    async def work() -> None:
        printer = _Printer(count, verbose)
        link = Client(
            host, port, client_id=client_id, clean=not persistent, expiry_s=expiry_s,
            username=user, password=password, tls=tls_with(tls_ca), deliver=printer,
        )  # fmt: skip
        if count == 0:
            printer.ended.set()
        await link.open()
        try:
            await link.subscribe([Subscription(name, qos) for name in filters])
            await while_open(link, _until(printer.ended, timeout), retry)
        finally:
            await link.close()
        if printer.broken:
            raise RefusedError(f"the output cannot be written: {printer.broken}")

    run_client(work())


async def _until(ended: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        pass
