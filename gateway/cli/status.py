"""``forebay status``."""

from typing import Annotated, Any

import typer
from rich.table import Table

from gateway.cli.options import ConfigOption, DataDirOption
from gateway.cli.remote import broker_at
from gateway.cli.watching import WatchOption, show
from gateway.figures import size as size
from gateway.figures import span as span

JsonOption = Annotated[bool, typer.Option("--json", help="Print the broker's answer as JSON.")]


def status(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False, watch: WatchOption = 0
) -> None:
    """What the running broker holds: sessions, queues, store, drops by reason."""
    broker = broker_at(config, data_dir)
    show(lambda: broker.ask({"cmd": "status"}), _table, as_json, watch)


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
        *_alarms(answer),
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
        ("disk", _wear(answer["wear"])),
        ("store error", store["error"] or "none"),
        *((f"uplink {row['name']}", _uplink(row)) for row in answer["uplinks"]),
        *(_engine(answer["engine"]) if answer["engine"]["name"] != "sqlite" else ()),
        ("clock", "synchronised" if answer["clock"]["synchronised"] else "not synchronised"),
        ("dropped", drops if answer["exact"] else f"{drops} (at least: the broker was not stopped cleanly)"),
        *((f"  {name}", str(value)) for name, value in sorted(answer["counters"].items()) if value),
    ]


def _alarms(answer: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if answer["safe_mode"] is not None:
        found = answer["safe_mode"]
        which = "the last good settings" if found["last_good"] else "the settings as they are"
        ends = span(found["ends_in_s"] * 1000)
        rows.append(("SAFE MODE", f"after {found['crashes']} crashes, with {which}, uplinks held; ends in {ends}"))
    if answer["read_only"]:
        rows.append(("READ-ONLY", f"nothing can be kept: {answer['read_only']}"))
    return rows


def _wear(wear: dict[str, Any]) -> str:
    where = " ".join(filter(None, (wear["disk"], wear["storage"]))) or "none of its own"
    parts = [f"{where}: {size(wear['total_bytes'])} written"]
    if wear["day_bytes"] is not None:
        parts.append(f"{size(wear['day_bytes'])} a day")
    if wear["life_left"] is not None:
        parts.append(f"{100 * wear['life_left']:.0f} % of its life left ({wear['life_from']})")
    if wear["years_left"] is not None:
        parts.append(f"{wear['years_left']:.3g} years at this rate")
    return ", ".join(parts)


def _delayed(delayed: dict[str, Any]) -> str:
    if not delayed["messages"]:
        return "none"
    return f"{delayed['messages']} messages, {size(delayed['bytes'])}, the next in {span(delayed['next_ms'])}"


def _uplink(row: dict[str, Any]) -> str:
    waits = f"{row['queue_messages'] + row['inflight']} messages wait"
    error = f", {row['error']}" if row["error"] else ""
    return f"{row['state']}, {waits}{error}"


def _engine(row: dict[str, Any]) -> list[tuple[str, str]]:
    log = row["log"]
    holds = ""
    if "bytes" in log:
        holds = f"; holds {log['messages']} messages, {size(log['bytes'])}, synced: {log['sync']}"
    elif "topics" in log:
        holds = f"; {log['messages']} unread messages in {log['topics']} topics on {log['servers']} servers"
    waits = f"{row['waiting'] + row['in_flight']} messages wait for it"
    error = f", {row['error']}" if row["error"] else ""
    readers = [
        (f"  {one['client_id']}", f"{'unknown' if one['lag'] is None else one['lag']} messages behind")
        for one in row["applications"]
        if one["reads"]
    ]
    return [(f"engine {row['name']}", f"{row['state']}, {waits}{holds}{error}"), *readers]


def _drain(drain: dict[str, Any]) -> str:
    if not drain["sessions"]:
        return "none"
    end = "no end in sight" if drain["eta_s"] is None else f"done in {span(drain['eta_s'] * 1000)}"
    return f"{drain['sessions']} sessions, {drain['messages_s']} messages/s, {end}"
