"""The whole drill, a table, and exit status 1 when a line of the verdict fails."""

import argparse
import asyncio
import dataclasses
import tempfile
from pathlib import Path

from tests.drill.drill import Drill, Plan
from tests.drill.table import show
from tests.drill.verdict import accounts, judge


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/drill", description=__doc__)
    for field in dataclasses.fields(Plan):
        name = "--" + field.name.replace("_", "-")
        parser.add_argument(name, type=type(field.default), default=field.default, help="%(default)s")
    plan = Plan(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="forebay-drill-") as folder:
        drill = Drill(plan, Path(folder), lambda line: print(line, flush=True))
        told = asyncio.run(drill.run())
    found, strange = accounts(told)
    lines = judge(told, found, strange)
    show(told, found, lines, drill.figures)
    return 1 if any(line.faults for line in lines) else 0
