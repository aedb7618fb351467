"""Settings on a page."""

import html
import json
import re
from pathlib import Path

from gateway.net.control import CommandError
from gateway.settings.table import TABLE
from gateway.web.edit import diff
from tests.unit.gateway.web.rig import Rig

FILE = "# Ours.\n[mqtt]\nmax_inflight = 40 # as it must be\n"
NAME = "set.mqtt.max_inflight"


def hidden(text: str, name: str) -> str:
    found = re.search(f'name="{name}" value="([^"]*)"', text)
    assert found is not None, text
    return html.unescape(found[1])


async def test_every_setting_is_shown_with_what_is_in_force(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        said = await rig.get("/settings")
    for name in TABLE:
        assert f"<code>{name}</code>" in said.text
    assert re.search(r'name="set\.mqtt\.max_inflight" value="40"', said.text)
    assert "default 32" in said.text


async def test_a_change_is_shown_before_it_is_made(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        review = await rig.post("/settings/review", form={NAME: "50", "set.mqtt.upgrade_qos": "false"})
        assert review.status == 200
        assert '<li class="add">+max_inflight = 50 # as it must be</li>' in review.text
        assert '<li class="del">-max_inflight = 40 # as it must be</li>' in review.text
        assert "upgrade_qos" not in review.text
        assert rig.config.read_text() == FILE
        form = {name: hidden(review.text, name) for name in ("changes", "base")}
        saved = await rig.post("/settings/save", form=form)
        assert "In force now." in saved.text
        assert rig.config.read_text() == FILE.replace("40", "50")
        assert {"cmd": "reload"} in rig.asked
        assert "settings mqtt.max_inflight changed from the status page by 127.0.0.1" in rig.text.getvalue()


async def test_what_counts_from_the_next_start_is_said(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        rig.answers["reload"] = ["durability"]
        review = await rig.post("/settings/review", form={"set.durability": '"os"'})
        form = {name: hidden(review.text, name) for name in ("changes", "base")}
        assert "Restart needed for <code>durability</code>" in (await rig.post("/settings/save", form=form)).text


async def test_what_the_broker_does_not_take_is_said(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        rig.answers["reload"] = CommandError("tls.cert: gone; everything stays as it was")
        review = await rig.post("/settings/review", form={NAME: "50"})
        form = {name: hidden(review.text, name) for name in ("changes", "base")}
        assert "The broker did not take it: tls.cert: gone" in (await rig.post("/settings/save", form=form)).text


async def test_a_wrong_value_changes_nothing_and_is_kept_in_its_field(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        for value in ("many", "0", "5\nlisten = []", '"5', ""):
            said = await rig.post("/settings/review", form={NAME: value})
            assert said.status == 422, value
            assert "expected an integer from 1 to 65535" in html.unescape(said.text), value
        said = await rig.post("/settings/review", form={"set.listen": "[]"})
        assert "expected at least one" in html.unescape(said.text)
        assert rig.config.read_text() == FILE


async def test_nothing_changed_is_said(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        assert "Nothing was changed." in (await rig.post("/settings/review", form={NAME: "40"})).text


async def test_a_file_that_another_has_changed_is_not_overwritten(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        review = await rig.post("/settings/review", form={NAME: "50"})
        form = {name: hidden(review.text, name) for name in ("changes", "base")}
        other = FILE + "max_topic_alias = 3\n"
        rig.config.write_text(other)
        said = await rig.post("/settings/save", form=form)
        assert said.status == 409
        assert "changed by somebody else" in said.text
        assert rig.config.read_text() == other


async def test_a_form_that_was_tampered_with_changes_nothing(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        review = await rig.post("/settings/review", form={NAME: "50"})
        base = hidden(review.text, "base")
        wrongs: list[object] = [[], 5, {"nothing": "5"}, {"mqtt.max_inflight": 5}, {"mqtt.max_inflight": "x"}]
        for wrong in wrongs:
            changes = json.dumps(wrong)
            said = await rig.post("/settings/save", form={"changes": changes, "base": base})
            assert said.status in (409, 422), changes
        assert rig.config.read_text() == FILE


async def test_without_a_file_settings_can_only_be_read(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        page = await rig.get("/settings")
        assert "forebay run --config FILE" in page.text
        assert "Review changes" not in page.text
        said = await rig.post("/settings/review", form={NAME: "50"})
        assert said.status == 422


async def test_what_the_command_line_decides_is_said(tmp_path: Path) -> None:
    async with Rig(tmp_path, "mqtt.max_inflight=60", config=FILE) as rig:
        review = await rig.post("/settings/review", form={NAME: "50"})
        assert "<code>mqtt.max_inflight</code> will stay as it is" in review.text


async def test_a_file_that_is_broken_meanwhile_is_told(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        rig.config.write_text("nothing = 1\n")
        assert "unknown key" in (await rig.get("/settings")).text


def test_lines_of_a_difference() -> None:
    assert diff("a\nb\n", "a\nc\n")[1:] == [
        {"kind": "same", "text": " a"},
        {"kind": "del", "text": "-b"},
        {"kind": "add", "text": "+c"},
    ]


UPLINK = """[[uplink]]
name = "cloud"
addresses = ["mqtts://broker.example"]
user = "gateway"
password = "s3cret"
rules = [{ direction = "out", filter = "line/#" }]
"""


async def test_a_password_is_shown_nowhere_and_cannot_be_overwritten_by_stars(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE + UPLINK) as rig:
        page = await rig.get("/settings")
        assert "s3cret" not in page.text
        assert "holds a password: change it in the file" in page.text
        review = await rig.post("/settings/review", form={"set.uplink": "[]", NAME: "50"})
        assert review.status == 200
        assert "s3cret" not in review.text
        assert list(json.loads(hidden(review.text, "changes"))) == ["mqtt.max_inflight"]
        assert "s3cret" not in str(diff("a\npassword = 's3cret'\n", "b\npassword = 's3cret'\n"))
