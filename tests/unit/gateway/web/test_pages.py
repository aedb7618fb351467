"""Logging in, the forms, and what is around a page."""

from pathlib import Path
from typing import Any

import pytest

from gateway.net.control import CommandError
from gateway.web import pages
from gateway.web.pages import FORM_BYTES_MAX, own_path
from tests.unit.gateway.web.reports import session
from tests.unit.gateway.web.rig import FAR, Rig

ROW = session("orphan", subscriptions=[{"filter": "t/#", "qos": 1}])


async def logged_in(rig: Rig) -> None:
    rig.passwords.add("ann", b"right")
    said = await rig.post("/login", form={"user": "ann", "password": "right", "to": "/log"}, **FAR)
    assert (said.status, said.headers["location"]) == (303, "/log")


async def test_a_login_opens_every_page_until_the_logout(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await logged_in(rig)
        page = await rig.get("/", **FAR)
        assert page.status == 200
        assert "Log out" in page.text
        kept = rig.cookie
        assert (await rig.post("/logout", **FAR)).status == 303
        rig.cookie = kept
        assert (await rig.get("/", **FAR)).status == 303


async def test_a_wrong_password_is_told_and_logged_without_it(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.passwords.add("ann", b"right")
        for _ in range(5):
            said = await rig.post("/login", form={"user": "ann", "password": "a secret guess"}, **FAR)
            assert said.status == 401
            assert "do not fit" in said.text
        assert (await rig.post("/login", form={"user": "ann", "password": "right"}, **FAR)).status == 429
        assert "10.0.0.5 did not get in" in rig.text.getvalue()
        assert "guess" not in rig.text.getvalue()


async def test_the_login_page_says_when_nobody_could_log_in(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        assert "forebay user add" in (await rig.get("/login", **FAR)).text
        rig.passwords.add("ann", b"right")
        assert "forebay user add" not in (await rig.get("/login", **FAR)).text


@pytest.mark.parametrize(
    ("to", "path"),
    [
        ("/sessions", "/sessions"),
        ("/node?id=a/b&asked=1", "/node?id=a/b&asked=1"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("sessions", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_to_no_other_site(to: str, path: str) -> None:
    assert own_path(to) == path


async def test_names_that_others_made_are_text_and_nothing_else(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script>'
    async with Rig(tmp_path) as rig:
        rig.answers["report"]["sessions"] = [session(evil)]
        rig.answers["report"]["log"] = [[1, 0, "info", evil]]
        rig.answers["session"] = session(evil, subscriptions=[{"filter": evil, "qos": 0}])
        rig.answers["sparkplug_nodes"] = CommandError(evil)
        for path in ("/sessions", "/session?id=x", "/log", "/sparkplug", "/session/end?id=%22%3E%3Cscript%3E"):
            said = await rig.get(path)
            assert said.status == 200
            assert "<script>alert" not in said.text
            assert "<script>\n" not in said.text
            assert "&lt;script&gt;" in said.text


async def test_a_session_is_ended_after_a_question(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.answers |= {"session": ROW, "remove": True}
        asks = await rig.get("/session/end?id=orphan")
        assert "12 messages that wait for it are dropped" in asks.text
        assert [one["cmd"] for one in rig.asked if one["cmd"] == "remove"] == []
        said = await rig.post("/session/end", form={"id": "orphan"})
        assert (said.status, said.headers["location"]) == (303, "/sessions")
        assert {"cmd": "remove", "client_id": "orphan"} in rig.asked
        assert "session of orphan ended from the status page by 127.0.0.1" in rig.text.getvalue()


async def test_what_the_broker_refuses_is_told(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.answers["session"] = CommandError("no session of nobody")
        assert "no session of nobody" in (await rig.get("/session?id=nobody")).text
        said = await rig.post("/session/end", form={"id": "nobody"})
        assert said.status == 409
        assert "no session of nobody" in said.text
        rig.answers["sparkplug_rebirth"] = CommandError("g/e is not connected")
        assert "g/e is not connected" in (await rig.post("/node/rebirth", form={"id": "g/e"})).text


async def test_a_rebirth_is_asked_for_and_logged_with_who_did(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.answers["sparkplug_rebirth"] = True
        await logged_in(rig)
        said = await rig.post("/node/rebirth", form={"id": "g/e 1"}, **FAR)
        assert (said.status, said.headers["location"]) == (303, "/node?id=g/e%201&asked=1")
        assert {"cmd": "sparkplug_rebirth", "node": "g/e 1"} in rig.asked
        assert "rebirth of g/e 1 asked for from the status page by ann from 10.0.0.5" in rig.text.getvalue()


async def test_a_form_without_end_is_refused(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        said = await rig.post("/settings/review", form={"set.listen": "x" * FORM_BYTES_MAX})
        assert said.status == 413


async def test_a_form_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "FORM_S", 0.05)
    async with Rig(tmp_path) as rig:
        assert (await rig.post("/settings/review", unfinished=True)).status == 408


async def test_without_a_broker_every_page_says_so(tmp_path: Path) -> None:
    async with Rig(tmp_path, broker=False) as rig:
        for path in ("/", "/sessions", "/session?id=x", "/flows", "/sparkplug", "/node?id=a/b", "/log", "/uplinks"):
            said = await rig.get(path)
            assert said.status == 200
            assert "does not answer" in said.text


async def test_a_page_marks_where_one_is(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        text: Any = (await rig.get("/sessions")).text
        assert text.count('aria-current="page"') == 1
        assert '<a href="/sessions" aria-current="page">' in text
