"""Which address leads where."""

from pathlib import Path

import pytest

from tests.unit.gateway.web.rig import FAR, Rig


@pytest.mark.parametrize("path", ["/static/app.css", "/static/app.js", "/static/icon.svg", "/login"])
async def test_strangers_get_the_login_page_and_what_it_looks_like(tmp_path: Path, path: str) -> None:
    async with Rig(tmp_path) as rig:
        assert (await rig.get(path, **FAR)).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/sessions", "/session?id=x", "/flows", "/uplinks", "/sparkplug", "/node?id=a/b", "/settings", "/log"]
)
async def test_strangers_are_sent_to_the_login_and_back(tmp_path: Path, path: str) -> None:
    async with Rig(tmp_path) as rig:
        said = await rig.get(path, **FAR)
        assert said.status == 303
        assert said.headers["location"].startswith("/login?to=/")
        assert (await rig.get(path)).status == 200


@pytest.mark.parametrize("path", ["/live?view=overview", "/metrics"])
async def test_programs_are_not_sent_to_a_form(tmp_path: Path, path: str) -> None:
    async with Rig(tmp_path) as rig:
        assert (await rig.get(path, **FAR)).status in (401, 403)


@pytest.mark.parametrize("path", ["/nothing", "/metrics/x", "/static/../access.py", "/static/%2e%2e/access.py"])
async def test_what_is_nowhere_is_not_found(tmp_path: Path, path: str) -> None:
    async with Rig(tmp_path) as rig:
        assert (await rig.get(path, **FAR)).status == 404


@pytest.mark.parametrize(
    "path", ["/session/end", "/node/rebirth", "/settings/review", "/settings/save", "/logout", "/login"]
)
async def test_no_form_is_taken_without_its_token(tmp_path: Path, path: str) -> None:
    async with Rig(tmp_path) as rig:
        for token in ("", "x" * 27):
            said = await rig.post(path, token, {"id": "a/b"})
            assert said.status == 403
        assert [one["cmd"] for one in rig.asked if one["cmd"] != "report"] == []
