"""The benchmark's own parts: the load against a real broker, the figures, the targets."""

import io
import json
from pathlib import Path

import pytest

from gateway.core.limits import Limits
from tests.bench import applications, commits, dressed, logins, micro_core, scale, sweep, uplinks
from tests.bench.core_rig import Rig
from tests.bench.measuring import Bench
from tests.bench.report import show
from tests.bench.run import compare, main, summary
from tests.bench.targets import TARGETS, paired, verdicts
from tests.bench.workloads import FOREBAY, GROUPS, INTERPRETED, MOSQUITTO, ROWS, selected

RUN = {"seconds": 2.0, "messages": 1000, "total": 1200, "cpu_s": 0.01, "written": 5000, "rss": 4_000_000}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


def test_rows_have_names_of_their_own_and_known_groups() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.group for row in ROWS} == set(GROUPS)
    assert [row.name for row in selected("W8,W1")] == ["W1", "W8"]
    assert selected("") == ROWS


def test_figures_are_medians_and_ratios_are_of_neighbours() -> None:
    slow = {**RUN, "messages": 100, "delivery_us": [1, 2, 3]}
    found = summary([{**RUN, "delivery_us": [5, 6, 7]}, slow, {**RUN, "delivery_us": [9, 9, 9]}])
    assert found["rate"] == 500
    assert found["written_each"] == 5
    assert found["cpu_s_per_million"] == pytest.approx(10)
    assert found["delivery_us"] == [5, 6, 7]
    assert paired([10, 100, 30], [5, 50, 10]) == 2


def test_a_target_is_held_missed_or_not_measured() -> None:
    ours, theirs = summary([RUN]), summary([{**RUN, "messages": 100}])
    figures = {
        "title": "", "interpreted": [], "ceilings": {}, "scale": {}, "gil": {},
        "rows": {"W1": {MOSQUITTO: theirs, FOREBAY: ours}, "W8": {MOSQUITTO: theirs, FOREBAY: ours}},
    }  # fmt: skip
    assert [(target.text, value) for target, value in verdicts(figures)] == [
        ("W1 rate / mosquitto", 10), ("W8 rate / mosquitto", 10),
    ]  # fmt: skip
    out = io.StringIO()
    assert not show(figures, out)
    assert "MISSED W1 rate / mosquitto: 10.00 (>= 20)" in out.getvalue()
    assert "holds  W8 rate / mosquitto: 10.00 (>= 0.9)" in out.getvalue()
    assert {target.least for target in TARGETS} == {True, False}


@pytest.mark.parametrize("name", ["W1", "W4/20", "on/20x1", "off/20x20", "spb", "slow", "W6/0", "W6/kept"])
def test_every_kind_of_load_runs_against_the_broker(bench: Bench, name: str) -> None:
    (row,) = selected(name)
    found = bench.measure(FOREBAY, row, 150)
    assert found["messages"] > 0
    assert found["total"] >= found["messages"]
    assert ("delivery_us" in found) == ("rate" in row.load)
    assert ("puback_us" in found) == (name == "W6/kept")


def test_a_dressed_broker_has_rules_that_let_the_load_through(bench: Bench) -> None:
    (row,) = selected("W4/20")
    found = dressed.measure(bench, row, 1, 150)
    assert found["plain"] > 0 and found["dressed"] > 0
    assert found.keys() >= {"rate", "cpu", "page_cpu"}


def test_the_interpreted_row_is_interpreted(bench: Bench) -> None:
    with bench.serving(INTERPRETED, {}, 20) as broker:
        assert "(interpreted)" in broker.log()


def test_a_load_that_is_refused_is_an_error(bench: Bench) -> None:
    (row,) = selected("W1")
    with pytest.raises(RuntimeError, match="W1 forebay: load: what is haste=1"):
        compare(bench, [row._replace(load={**row.load, "haste": 1})], [FOREBAY], 1, 100)


def test_a_queue_is_filled_restarted_and_drained(bench: Bench) -> None:
    found = scale.queued(bench, FOREBAY, 3000, 200)
    assert found["drain_rate"] > 0
    assert 200 < found["disk_each"] < 4000
    assert found["start_s"] > 0


def test_an_uplink_is_drained_and_several_share_the_disk(bench: Bench) -> None:
    found = {**uplinks.drain(bench, 3000), **uplinks.disk(bench, 1000)}
    assert found["uplink"] > 0
    assert found["local"] > 0
    assert found["written_1"] > 0
    assert found["written_3"] > 0


def test_applications_read_one_stream_and_drain_it(bench: Bench) -> None:
    found = applications.readers(bench, 2000, 1000)
    assert all(found[f"{where}_{number}"] > 0 for where in ("away", "here") for number in applications.READERS)
    drained = applications.drain(bench, 3000, 300)
    assert drained["rate"] > 0 and drained["paced_rate"] > 0
    assert drained["pace"] == int(drained["rate"] / 2)
    for name in ("live_before_us", "live_beside_us", "paced_before_us", "paced_beside_us"):
        assert drained[name][1] >= drained[name][0] > 0


def test_queued_messages_have_a_price_by_group() -> None:
    assert commits.queue(2000, 10)["rss"] > 1_000_000


def test_every_hot_function_has_a_time() -> None:
    names = [name for name, ns in micro_core.rows() if ns > 0]
    assert len(names) == len(set(names)) == 10


def test_the_sweep_measures_what_gathers(bench: Bench) -> None:
    found = sweep.measure(bench, 200, (50,), (1000,))
    assert list(found) == [f"{path}/50/1000" for path in sweep.PATHS]
    for name in ("direct/50/1000", "device/50/1000"):
        assert found[name]["delivery_us"][0] > 5_000  # 50 messages at 1,000/s take 50 ms to gather
    out = io.StringIO()
    sweep.show(found, out)
    assert "| application | 1,000 | 50 |" in out.getvalue()


def test_connections_are_counted(bench: Bench) -> None:
    found = scale.connections(bench, FOREBAY, (50,))
    assert found["idle_rss"] > 1_000_000
    assert "50_bytes_each" in found


def test_the_whole_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "figures.json"
    assert main(["--only", "W8", "--broker", FOREBAY, "--rounds", "1", "--seconds", "0.1", "--json", str(target)]) == 0
    assert "W8: QoS 1, 1 -> 1, one at a time" in capsys.readouterr().out
    assert json.loads(target.read_text())["rows"]["W8"][FOREBAY]["rate"] > 0


def test_the_rig_delivers_and_commits() -> None:
    rig = Rig(Limits())
    rig.subscriber("taker", "a/#", 0, False)
    frames = rig.publisher("giver", b"a/b", 0, b"hello", 3)
    rig.feed("giver", frames)
    assert rig.take() == {"taker": frames}
    rig.subscriber("keeper", "b", 1, True)
    rig.leave("keeper")
    rig.commit()
    rig.feed("other", rig.publisher("other", b"b", 1, b"kept", 2))
    assert rig.take() == {}
    batch = rig.router.take_batch(rig.now)
    assert batch is not None
    assert batch.records.count(b"kept") == 2
    rig.router.on_committed(batch.number, rig.now)
    assert rig.take() == {"other": b"\x40\x02\x00\x01\x40\x02\x00\x02"}


def test_a_flood_of_logins_is_answered_and_live_messages_come_through() -> None:
    found = logins.measure(50, 0.3)
    assert set(found) == {"before_us", "during_us", "after_us", "p99_ratio", "broker_cpu", "codes"}
    codes = found["codes"]
    assert isinstance(codes, dict)
    assert codes.pop("none") == 0
    assert codes.keys() <= {str(0x86), str(0x9F)}
    assert sum(codes.values()) > 0
