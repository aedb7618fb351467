"""The figures as text: one line for each contestant, then the targets."""

from typing import TextIO

from tests.bench import applications, sweep, uplinks
from tests.bench.measuring import Figures
from tests.bench.targets import paired, verdicts
from tests.bench.workloads import DURABILITY, GROUPS, MOSQUITTO, ROWS

HEAD = f"{'':22}{'messages/s':>12}{'ratio':>8}{'CPU s/M':>9}{'ratio':>7}{'sysc/msg':>10}{'bytes/msg':>11}{'RSS MB':>8}"
LATENCY_HEAD = f"{'delivered p50/p99':>20}{'PUBACK p50/p99':>18}"


def _cell(value: float | None, shape: str, width: int) -> str:
    return f"{value:{shape}}".rjust(width) if value is not None else "-".rjust(width)


def _line(kind: str, one: Figures, base: Figures | None) -> str:
    other = base if base is not one else None
    ratio = paired(one["rates"], other["rates"]) if other else None
    cpu = other["cpu_s_per_million"] / max(one["cpu_s_per_million"], 0.001) if other else None
    line = f"  {kind:20}" + _cell(one["rate"], ",.0f", 12) + _cell(ratio, ".2f", 8)
    line += _cell(one["cpu_s_per_million"], ".2f", 9) + _cell(cpu, ".2f", 7)
    line += _cell(one.get("syscalls_each"), ".3f", 10) + _cell(one["written_each"], ",.0f", 11)
    line += _cell(one["rss"] / 1e6, ".0f", 8)
    for what, width in (("delivery_us", 20), ("puback_us", 18)):
        if what in one:
            line += f"{one[what][0]:,.0f} / {one[what][1]:,.0f}".rjust(width)
    return line


def show_rows(figures: Figures, out: TextIO) -> None:
    group = ""
    for row in ROWS:
        found = figures["rows"].get(row.name)
        if not found:
            continue
        if row.group != group:
            group = row.group
            print(f"\n{GROUPS[group]}\n{HEAD}{LATENCY_HEAD if group == 'paced' else ''}", file=out)
        ceiling = figures["ceilings"].get(row.name)
        print(f"{row.name}: {row.title}" + (f" (the load alone: {ceiling:,.0f})" if ceiling else ""), file=out)
        for kind, one in found.items():
            print(_line(kind, one, found.get(MOSQUITTO)), file=out)
        if row.group in ("offline", "online") and row.name.endswith("20x20"):
            for kind in found:
                print(f"    {kind}: {DURABILITY[kind]}", file=out)


def show_scale(figures: Figures, out: TextIO) -> None:
    for kind, one in figures["scale"].get("connections", {}).items():
        each = ", ".join(
            f"{key.removesuffix('_bytes_each')}: {value:,.0f} bytes each"
            for key, value in one.items()
            if key.endswith("_bytes_each")
        )
        print(f"\nConnections, {kind}: RSS {one['idle_rss'] / 1e6:.1f} MB without clients; {each}", file=out)
    for kind, one in figures["scale"].get("queued", {}).items():
        print(
            f"\n{one['count']:,} queued messages of 200 bytes, {kind}: filled at {one['fill_rate']:,.0f}/s"
            f" ({one['written_each']:,.0f} bytes written for each), RSS {one['full_rss'] / 1e6:.0f} MB,"
            f" {one['disk_each']:,.0f} bytes on disk for each,\n  first CONNACK after {one['start_s']:.2f} s with"
            f" RSS {one['start_rss'] / 1e6:.0f} MB, drained at {one['drain_rate']:,.0f}/s; live p50 / p99"
            f" {one['live_before_us'][0]:,} / {one['live_before_us'][1]:,} us before,"
            f" {one['live_beside_us'][0]:,} / {one['live_beside_us'][1]:,} us beside it",
            file=out,
        )
    for one in figures["scale"].get("apps", {}).values():
        print("\nBytes written for each message, by how many APPLICATION clients read the stream", file=out)
        for where, text in (("away", "none of them there"), ("here", "all there, nothing elided, 1,000/s")):
            shown = ", ".join(f"{n}: {one[f'{where}_{n}']:,.0f}" for n in applications.READERS)
            print(f"  {text}: {shown}", file=out)
    for one in figures["scale"].get("drain", {}).values():
        print(
            f"\n{one['count']:,} messages drained by one APPLICATION: {one['rate']:,.0f}/s in order, 1,000/s coming in;"
            f"\n  live p50 / p99 {one['live_before_us'][0]:,} / {one['live_before_us'][1]:,} us before,"
            f" {one['live_beside_us'][0]:,} / {one['live_beside_us'][1]:,} us beside it;"
            f"\n  at drain_rate {one['pace']:,} {one['paced_rate']:,.0f}/s,"
            f" live {one['paced_before_us'][0]:,} / {one['paced_before_us'][1]:,} us before,"
            f" {one['paced_beside_us'][0]:,} / {one['paced_beside_us'][1]:,} us beside it",
            file=out,
        )
    for one in figures["scale"].get("uplinks", {}).values():
        written = ", ".join(f"{n}: {one[f'written_{n}']:,.0f}" for n in uplinks.COUNTS)
        print(
            f"\n{one['count']:,} messages drained over an uplink: {one['uplink']:,.0f}/s in order,"
            f" by a local subscriber with the same window {one['local']:,.0f}/s;"
            f"\n  bytes written for each message, by how many uplinks: {written}",
            file=out,
        )
    show_engines(figures["scale"].get("engines", {}), out)
    if figures.get("commits"):
        shown = ", ".join(f"{group}: {one['each']:,.0f}" for group, one in figures["commits"].items())
        print(f"\nBytes of RAM for each queued message, by messages in a commit: {shown}", file=out)
    gil = figures["gil"]
    if gil:
        print(
            f"\nCommit of 1,000 messages: {gil['idle_ms']:.1f} ms (most {gil['idle_max_ms']:.1f}) beside an idle loop,"
            f" {gil['saturated_ms']:.1f} ms (most {gil['saturated_max_ms']:.1f}) beside a saturated one",
            file=out,
        )


def show_engines(found: Figures, out: TextIO) -> None:
    if found:
        print("\nThe log of the APPLICATIONs by engine (CPU us of gateway + engine; bytes written for each)", file=out)
    for kind, one in found.items():
        if "why" in one:
            print(f"  {kind:7} {one['why']}", file=out)
            continue
        print(
            f"  {kind:7} publish {one['publish_rate']:>9,.0f}/s, CPU {one['publish_cpu_us']:.0f} +"
            f" {one['publish_engine_cpu_us']:.0f}, {one['publish_written']:,.0f} bytes; drain"
            f" {one['drain_rate']:>9,.0f}/s, CPU {one['drain_cpu_us']:.0f} + {one['drain_engine_cpu_us']:.0f};"
            f" RSS {one['rss'] / 1e6:.0f} + {one['engine_rss'] / 1e6:.0f} MB",
            file=out,
        )


def show(figures: Figures, out: TextIO) -> bool:
    """Print everything; False when a target is missed."""
    print(figures["title"], file=out)
    show_rows(figures, out)
    show_scale(figures, out)
    for name, one in figures.get("consume", {}).items():
        print(
            f"\nConsumed by {name}, QoS 1, window 200: {one['rate']:,.0f}/s, {one['cpu_us']:.1f} us of CPU each",
            file=out,
        )
    for name, ns in figures.get("payloads", {}).items():
        print(f"\n{name}: {ns / 1000:,.2f} us", end="", file=out)
    if figures.get("payloads"):
        print(file=out)
    if figures.get("sweep"):
        sweep.show(figures["sweep"], out)
    if figures["interpreted"]:
        print(f"\nnot compiled: {', '.join(figures['interpreted'])}", file=out)
    found = verdicts(figures)
    if found:
        print("\nTargets", file=out)
    for target, value in found:
        sign = ">=" if target.least else "<="
        print(f"  {'holds ' if target.held(value) else 'MISSED'} {target.text}: {value:,.2f} ({sign} {target.bound:g})",
              file=out)  # fmt: skip
    return all(target.held(value) for target, value in found)
