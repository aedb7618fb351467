"""What a drill found, for people."""

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.drill.verdict import Account, Line, Told

SHOWN_MAX = 5  # faults of a line


def show(told: Told, found: Sequence[Account], lines: Sequence[Line], figures: dict[str, float]) -> None:
    """The nodes, the loss windows, the figures, and the verdict."""
    console = Console(highlight=False, markup=False, width=120)
    console.print(_nodes(told, found))
    console.print(_windows(found))
    shown = [f"{name} {value:,.0f}" for name, value in figures.items()]
    console.print(", ".join(shown))
    for line in lines:
        console.print(f"{'FAILED' if line.faults else 'ok':6} {line.what}")
        for fault in line.faults[:SHOWN_MAX]:
            console.print(f"{'':6}   {fault}")
        if len(line.faults) > SHOWN_MAX:
            console.print(f"{'':6}   and {len(line.faults) - SHOWN_MAX} more")


def _nodes(told: Told, found: Sequence[Account]) -> Table:
    """A line for each node: sent and deaths by will are what was delivered and what was lost."""
    table = Table(box=None, pad_edge=False)
    table.add_column("node")
    headings = ("sent", "deaths by will", "ingested", "delivered", "late", "lost before", "windows", "rebirths")
    for heading in headings:
        table.add_column(heading, justify="right")
    ingested = _ingested(told, found)
    rows = [
        (
            account.sent.name, account.sent.count, account.deaths, ingested[account.sent.name], account.delivered,
            account.late, account.lost, len(account.windows), account.sent.requests,
        )
        for account in found
    ]  # fmt: skip
    for row in rows:
        table.add_row(row[0], *(f"{value:,}" for value in row[1:]))
    totals = [sum(int(row[i]) for row in rows) for i in range(1, len(headings) + 1)]
    table.add_row("all", *(f"{value:,}" for value in totals))
    return table


def _ingested(told: Told, found: Sequence[Account]) -> Counter[str]:
    """By node: what the collector saw that was there all the time."""
    node_of = {}
    for account in found:
        for session in account.sent.sessions:
            node_of[session.will] = account.sent.name
            node_of.update(dict.fromkeys(session.sent, account.sent.name))
    return Counter(node_of.get(one.digest, "") for one in told.there)


def _windows(found: Sequence[Account]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("lost before ingest", "from (UTC)", "to", "why"):
        table.add_column(heading)
    table.add_column("messages", justify="right")
    for account in found:
        for window in account.windows:
            table.add_row(account.sent.name, _clock(window.from_max), _clock(window.to), window.why, f"{window.lost:,}")
    return table


def _clock(ms: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03}"
