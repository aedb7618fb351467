"""The drill in short: three nodes, fewer and longer rounds. ``make drill`` is the whole of it."""

from pathlib import Path

import pytest

from tests.drill.drill import Drill, Plan
from tests.drill.table import show
from tests.drill.verdict import accounts, judge

SHORT = Plan(nodes=3, interval_s=200, pace_s=0.02, keep_alive_s=5, keeps_every=3)


@pytest.mark.timeout(400)
async def test_a_collector_away_for_ten_hours_loses_nothing_that_was_ingested(tmp_path: Path) -> None:
    drill = Drill(SHORT, tmp_path, print)
    told = await drill.run()
    found, strange = accounts(told)
    lines = judge(told, found, strange)
    show(told, found, lines, drill.figures)
    assert not [line for line in lines if line.faults]
    assert drill.hours > SHORT.hours
    whys = [[window.why for window in account.windows] for account in found]
    assert whys == [
        ["seq_gap", "restart", "restart", "seq_gap"],
        ["restart", "connection", "restart", "seq_gap"],
        ["restart", "seq_gap", "restart", "seq_gap"],
    ]
    assert found[1].windows[1].lost > 0, "nothing was lost on the dead link"
    assert found[2].late > 0, "nothing was kept and sent afterwards"
