"""``forebay sparkplug probe``: how a live node behaves when its link fails."""

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.bridge.probe import STEPS, Ask, Do, Plan, Probe, Tell
from gateway.bridge.sightings import Eyes
from gateway.bridge.verdict import Judged, draft, judge, name_of
from gateway.cli.control import Conversation, RefusedError
from gateway.cli.options import ConfigOption, DataDirOption, UsageError, settings_from
from gateway.cli.terminal import shown
from gateway.profiles import as_toml, schema
from gateway.schema import check

POLL_S = 0.2
SECONDS_MAX = 604_800  # a week; nan and inf are no numbers of seconds either


def _seconds(name: str, minimum: float, help: str) -> Any:
    return typer.Option(name, metavar="SECONDS", min=minimum, max=SECONDS_MAX, help=help)


OverflowOption = Annotated[float, _seconds("--overflow", 0, "Also try how much it keeps in so long an outage.")]
ReconnectOption = Annotated[float, _seconds("--reconnect", 1, "How long it may take to come back.")]
SettleOption = Annotated[float, _seconds("--settle", 0.1, "Without late data, a replay is over.")]
OutageOption = Annotated[float, _seconds("--outage", 0, "Length of the outage, if not 1.5 x keep alive.")]


def probe(
    node: Annotated[str, typer.Argument(metavar="GROUP/NODE", show_default=False)],
    client_id: Annotated[
        str, typer.Option("--client-id", help="Its MQTT client id, where its will does not tell the node.")
    ] = "",
    counter: Annotated[
        str, typer.Option("--counter", help="A metric that counts up, device/metric below a device.")
    ] = "",
    step: Annotated[
        list[str] | None,
        typer.Option("--step", metavar="STEP", help=f"Only this one; may be repeated: {', '.join(STEPS)}."),
    ] = None,
    overflow: OverflowOption = 0.0,
    reconnect: ReconnectOption = 180.0,
    settle: SettleOption = 10.0,
    outage: OutageOption = 20.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the profile there instead of to NAME.toml.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Disturb the device without asking; what needs a hand is left out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings and verdict as JSON.")] = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Cut a live node off in several ways, see what it sends again, give the verdict and write a profile of it.

    Asks before it disturbs the device. All is undone at the end, however it comes.
    """
    plan = _plan(step, counter, overflow, reconnect, settle, outage)
    if node.count("/") != 1 or not all(node.split("/")):
        raise UsageError(f"{node}: expected GROUP/NODE")
    target = out if out is not None else Path(f"{name_of(node)}.toml")
    if target.exists() and not force:
        raise UsageError(f"{target}: is there already; --force writes over it")
    path = settings_from(config, data_dir).control_socket
    with Conversation(path) as talk:
        opened = talk.ask({"cmd": "probe", "node": node, "client_id": client_id})
        typer.echo(f"{node}: client {shown(opened['client_id'])} from {opened['peer']}", err=True)
        eyes = Eyes()
        machine = Probe(node, plan, opened["now"])
        _run(talk, machine, eyes, yes)
    findings = machine.findings
    judged = judge(findings)
    if as_json:
        typer.echo(json.dumps(_as_json(node, judged, findings), indent=2, ensure_ascii=False))
    else:
        typer.echo(f"{node}: {judged.verdict}, confidence {judged.confidence}")
        for line in judged.evidence:
            typer.echo(f"  {shown(line)}")
    if judged.verdict == "unknown":
        raise typer.Exit(1)
    values = draft(node, findings, judged, eyes.properties, eyes.aliases, time.strftime("%Y-%m-%d"))
    if out is not None:
        values["name"] = out.stem
    _write(values, target)


def _plan(
    steps: list[str] | None, counter: str, overflow: float, reconnect: float, settle: float, outage: float
) -> Plan:
    for name in steps or ():
        if name not in STEPS:
            raise UsageError(f"--step {name}: expected one of {', '.join(STEPS)}")
    chosen = tuple(steps) if steps else STEPS[:-1]
    if overflow and "overflow" not in chosen:
        chosen += ("overflow",)
    kept = dataclasses.replace(Plan(), overflow_ms=round(overflow * 1000)) if overflow else Plan()
    return dataclasses.replace(
        kept, steps=chosen, counter=counter or None, reconnect_ms=round(reconnect * 1000),
        settle_ms=round(settle * 1000), outage_ms=round(outage * 1000),
        margin_ms=min(Plan().margin_ms, round(settle * 1000)),
    )  # fmt: skip


def _run(talk: Conversation, machine: Probe, eyes: Eyes, yes: bool) -> None:
    missed = 0
    while not machine.done:
        told = talk.ask({"cmd": "probe_events"})
        for event in told["events"]:
            sighting = eyes.see(event)
            if sighting is not None:
                machine.feed(sighting)
        if told["missed"] > missed:
            missed = told["missed"]
            typer.echo(f"{missed} messages could not be looked at: they came faster than they were fetched", err=True)
        machine.tick(told["now"])
        for output in machine.take():
            if isinstance(output, Do):
                _do(talk, output)
            elif isinstance(output, Tell):
                typer.echo(shown(output.text), err=True)
            else:
                machine.answer(_ask(output, yes))
        time.sleep(POLL_S)


def _do(talk: Conversation, do: Do) -> None:
    try:
        talk.ask({"cmd": "probe_do", "action": do.action})
    except RefusedError:
        # it has just left by itself: then there is nothing to cut, and nothing that waits
        if do.action not in ("cut", "withhold", "release", "deaden"):
            raise


def _ask(question: Ask, yes: bool) -> bool:
    if yes:
        return not question.by_hand
    typer.echo(f"{question.text} [y/N] ", err=True, nl=False)  # stdout is for the result
    line = sys.stdin.readline()
    if not line:
        raise typer.Abort
    return line.strip().lower() in ("y", "yes")


def _as_json(node: str, judged: Judged, findings: Any) -> dict[str, Any]:
    values = dataclasses.asdict(findings)
    values["client_ids"] = sorted(values["client_ids"])
    return {"node": node, **dataclasses.asdict(judged), "findings": values}


def _write(values: dict[str, Any], path: Path) -> None:
    comment = "# Written by forebay sparkplug probe; in the folder profiles of the data folder it counts.\n"
    try:
        path.write_text(comment + as_toml(values), encoding="utf-8")
    except OSError as error:
        typer.echo(f"forebay: {path}: cannot be written: {error.strerror}", err=True)
        raise typer.Exit(1) from None
    for fault in check(values, schema()):
        typer.echo(f"forebay: {path}: {fault}", err=True)  # of a name that --out gave
    typer.echo(f"{path}: written", err=True)
