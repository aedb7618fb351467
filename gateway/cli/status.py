"""``forebay status``."""

from typing import Annotated, Any

import typer
from rich.table import Table

from gateway.cli.control import ask
from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.watching import WatchOption, show
from gateway.figures import size as size
from gateway.figures import span as span

JsonOption = Annotated[bool, typer.Option("--json", help="Print the broker's answer as JSON.")]


def status(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False, watch: WatchOption = 0
) -> None:
    """What the running broker holds: sessions, queues, store, drops by reason."""
    socket = settings_from(config, data_dir).control_socket
    show(lambda: ask(socket, {"cmd": "status"}), _table, as_json, watch)


def _table(answer: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in _rows(answer):
        table.add_row(name, text)
    return table


def _rows(answer: dict[str, Any]) -> list[tuple[str, str]]:
    sessions, queue, store = answer["sessions"], answer["queue"], answer["store"]
    kind = "compiled" if answer["compiled"] else "interpreted"
    fill = f" ({100 * store['used_bytes'] / store['max_bytes']:.0f} %)" if store["max_bytes"] else ""
    drops = ", ".join(f"{reason} {count}" for reason, count in sorted(answer["drops"].items()) if count) or "none"
    return [
        ("broker", f"forebay {answer['version']} ({kind}), up {span(answer['uptime_s'] * 1000)}"),
        ("listeners", ", ".join(answer["listeners"])),
        ("connections", str(answer["connections"])),
        (
            "sessions",
            f"{sessions['total']} ({sessions['connected']} connected, {sessions['persistent']} persistent)",
        ),
        ("queued", f"{queue['messages']} messages, {size(queue['bytes'])}, oldest {span(queue['oldest_ms'])}"),
        ("draining", _drain(answer["drain"])),
        ("in flight", str(answer["inflight"])),
        ("for slow clients", f"{size(answer['waiting_bytes'])} in RAM"),
        ("retained", str(answer["retained"])),
        ("delayed", _delayed(answer["delayed"])),
        (
            "store",
            f"{size(store['used_bytes'])} of {size(store['max_bytes'])}{fill}, {size(store['free_bytes'])} left",
        ),
        (
            "commits",
            f"{store['commits']}, p50 {store['commit_ms_p50']:.1f} ms, p99 {store['commit_ms_p99']:.1f} ms",
        ),
        ("store error", store["error"] or "none"),
        *((f"uplink {row['name']}", _uplink(row)) for row in answer["uplinks"]),
        ("clock", "synchronised" if answer["clock"]["synchronised"] else "not synchronised"),
        ("dropped", drops if answer["exact"] else f"{drops} (at least: the broker was not stopped cleanly)"),
        *((f"  {name}", str(value)) for name, value in sorted(answer["counters"].items()) if value),
    ]


def _delayed(delayed: dict[str, Any]) -> str:
    if not delayed["messages"]:
        return "none"
    return f"{delayed['messages']} messages, {size(delayed['bytes'])}, the next in {span(delayed['next_ms'])}"


def _uplink(row: dict[str, Any]) -> str:
    waits = f"{row['queue_messages'] + row['inflight']} messages wait"
    error = f", {row['error']}" if row["error"] else ""
    return f"{row['state']}, {waits}{error}"


def _drain(drain: dict[str, Any]) -> str:
    if not drain["sessions"]:
        return "none"
    end = "no end in sight" if drain["eta_s"] is None else f"done in {span(drain['eta_s'] * 1000)}"
    return f"{drain['sessions']} sessions, {drain['messages_s']} messages/s, {end}"
