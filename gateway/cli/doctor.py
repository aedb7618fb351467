"""``forebay doctor``: is every flow buffered from end to end?"""

import json
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import ConfigOption, DataDirOption, UsageError
from gateway.cli.remote import broker_at
from gateway.cli.status import JsonOption, span
from gateway.cli.terminal import shown
from gateway.doctor.snapshot import Ask
from gateway.settings.kinds import Duration

CODES: Final = {"error": 4, "warning": 1}  # exit codes; the worst counts
BUFFERED: Final = {"yes": "yes", "no": "no", "only_while": "only while"}
_SPAN: Final = Duration(1)

OutageOption = Annotated[
    str, typer.Option("--outage", metavar="TIME", help="The longest outage that is to be covered, such as 30m, 8h, 3d.")
]


def seconds_of(option: str, text: str) -> int:
    """A time span of the command line in seconds. Raises UsageError."""
    try:
        return _SPAN.parse(int(text) if text.isdigit() else text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected {_SPAN.allowed}") from None


def doctor(
    outage: OutageOption = "8h",
    unacked: Annotated[
        str, typer.Option("--unacked", metavar="TIME", help="A message unacknowledged for longer is a finding.")
    ] = "60s",
    keep_alive: Annotated[
        str, typer.Option("--keep-alive", metavar="TIME", help="A longer keep alive is a finding.")
    ] = "2m",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say of each flow whether it is buffered from publisher to collector, and what to set where it is not.

    Exit code 0: nothing found (notes apart). 1: warnings. 4: messages are lost in such an outage.
    """
    from gateway.doctor.answer import report as report_of

    wanted = Ask(
        outage_s=seconds_of("--outage", outage),
        unacked_s=seconds_of("--unacked", unacked),
        keep_alive_s=seconds_of("--keep-alive", keep_alive),
    )
    report = report_of(broker_at(config, data_dir).ask({"cmd": "doctor"}), wanted)
    if as_json:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(report)
    code = next((code for severity, code in CODES.items() if report["counts"][severity]), 0)
    if code:
        raise typer.Exit(code)


def _print(report: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False)
    if report["flows"]:
        table = Table(box=None, pad_edge=False)
        for heading in ("publisher", "topics", "collector", "QoS", "buffered", "because"):
            table.add_column(heading, overflow="fold")
        for flow in report["flows"]:
            table.add_row(*_flow(flow))
        console.print(table)
    else:
        console.print("No flow was seen: nobody has published since the start of the broker.")
    for name in ("flows", "topics"):
        if report[f"{name}_left_out"]:
            console.print(f"{report[f'{name}_left_out']} more {name} are left out.")
    for finding in report["findings"]:
        console.print()
        console.print(f"{finding['severity']}: {shown(finding['what'])} [{finding['code']}]")
        console.print(f"  why: {shown(finding['why'])}")
        console.print(f"  set: {shown(finding['setting'])}")
        console.print(f"  on:  {finding['where']}, {shown(finding['machine'])}")
    counts = ", ".join(f"{count} {severity}s" for severity, count in report["counts"].items())
    console.print()
    console.print(f"For an outage of {span(report['outage_s'] * 1000)}: {counts}.")


def _flow(flow: dict[str, Any]) -> list[str]:
    topics = (
        flow["topics"][0] if flow["topic_count"] == 1 else f"{flow['topics'][0]} and {flow['topic_count'] - 1} others"
    )
    published = "/".join(map(str, flow["publish_qos"]))
    return [
        shown(flow["publisher"]),
        shown(topics),
        shown(flow["collector"]),
        f"{published} -> {flow['subscription_qos']} = {flow['qos']}",
        BUFFERED[flow["buffered"]],
        shown(flow["because"].removeprefix("only while ")),
    ]
