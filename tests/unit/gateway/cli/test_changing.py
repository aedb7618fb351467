"""``forebay config set`` and what belongs to it, with a gateway that runs and without."""

import json
from pathlib import Path

import pytest

from tests.command import Forebay
from tests.harness import Broker


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "forebay.toml"
    path.write_text(f'# ours\ndata_dir = "{tmp_path / "data"}"\n')
    return path


def test_without_a_gateway(forebay: Forebay, file: Path) -> None:
    code, out, err = forebay("config", "set", "mqtt.max_inflight=50", "sys_interval=5s", "-c", str(file))
    assert (code, err) == (0, "")
    assert "+max_inflight = 50" in out and out.endswith("written; no gateway runs\n")
    assert file.read_text().startswith("# ours\n")
    assert forebay("config", "get", "mqtt.max_inflight", "-c", str(file)).out == "50\n"
    assert forebay("config", "unset", "sys_interval", "-c", str(file)).code == 0
    assert "sys_interval" not in file.read_text()
    names = json.loads(forebay("config", "history", "-c", str(file), "--json").out)
    assert len(names) == 2
    assert forebay("config", "rollback", names[0], "-c", str(file)).code == 0
    assert "max_inflight" not in file.read_text()
    assert forebay("config", "rollback", "-c", str(file)).code == 0, "what was rolled back from is the newest"
    assert "max_inflight = 50" in file.read_text()


def test_a_running_gateway_takes_over_what_it_can(forebay: Forebay, file: Path, tmp_path: Path) -> None:
    with Broker(tmp_path / "data", arguments=("-c", str(file))):
        assert forebay("config", "diff", "-c", str(file)).code == 1, "the harness listens elsewhere"
        out = forebay("config", "set", "mqtt.max_inflight=50", "-c", str(file)).out
        assert out.endswith("written and in force\n")
        out = forebay("config", "set", "durability=os", "-c", str(file)).out
        assert out.endswith("written and in force; durability: restart needed\n")
        found = json.loads(forebay("config", "diff", "-c", str(file), "--json").out)
        assert found["durability"] == {"running": '"fsync"', "file": '"os"'}
        assert "mqtt.max_inflight" not in found
        assert '- durability = "fsync"\n+ durability = "os"\n' in forebay("config", "diff", "-c", str(file)).out


def test_a_dry_run_writes_nothing(forebay: Forebay, file: Path) -> None:
    before = file.read_text()
    code, out, _ = forebay("config", "set", "durability=os", "-c", str(file), "--dry-run")
    assert code == 0 and '+durability = "os"' in out and "written" not in out
    assert file.read_text() == before
    assert forebay("config", "set", "durability=maybe", "-c", str(file), "--dry-run").code == 2
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "durability"), "expected KEY=VALUE"),
        (("set", "durabilty=os"), "did you mean durability?"),
        (("set", "durability=maybe"), 'durability = "maybe": expected one of'),
        (("set", "listen="), "expected"),
        (("unset", "nothing.at.all"), "is no setting"),
        (("get", "mqtt"), "is no setting"),
        (("rollback",), "nothing to go back to"),
    ],
)
def test_refused_in_one_line(forebay: Forebay, file: Path, words: tuple[str, ...], said: str) -> None:
    before = file.read_text()
    code, out, err = forebay("config", *words, "-c", str(file))
    assert (code, out) == (2, "")
    assert said in err and err.count("\n") == 1
    assert file.read_text() == before


def test_a_file_is_needed(forebay: Forebay, file: Path) -> None:
    assert "expected --config FILE" in forebay("config", "set", "durability=os").err
    forebay("config", "set", "durability=os", "-c", str(file))
    assert forebay("config", "rollback", "nowhere", "-c", str(file)).code == 2
