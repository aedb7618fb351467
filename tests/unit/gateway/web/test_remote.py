"""The control over HTTPS: who may ask what, and what an attacker gets."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.net.control import CommandError
from gateway.tokens import OPERATOR, READ_ONLY, Tokens
from gateway.web.guesses import FAILURES_MAX
from gateway.web.remote import BYTES_MAX, CHANGES, QUESTIONS
from tests.asgi import Said, called
from tests.unit.gateway.web.rig import FAR, Rig

FILE = "# ours\nsys_interval = 0\n"


async def ask(rig: Rig, token: str, body: Any, scheme: str = "https", method: str = "POST", **more: Any) -> Said:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    app = rig.app

    async def over(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "scheme": scheme}, receive, send)

    return await called(over, "/api/control", data, method=method, headers=headers, **{**FAR, **more})


def token(folder: Path, role: str) -> str:
    return Tokens(folder / "tokens").make(role, role)


async def test_questions_are_for_every_token_and_changes_for_an_operators(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        reader, operator = token(tmp_path, READ_ONLY), token(tmp_path, OPERATOR)
        for name in sorted(QUESTIONS | CHANGES - {"config"}):
            rig.answers[name] = {"answer": name}
            for who in (reader, operator):
                said = await ask(rig, who, {"cmd": name, "client_id": "c1"})
                if who == reader and name in CHANGES:
                    assert said.status == 403
                    assert json.loads(said.text) == {
                        "error": f"the token read-only is read-only: {name} needs one of an operator"
                    }
                else:
                    assert (said.status, json.loads(said.text)) == (200, {"result": {"answer": name}})
        assert {command["cmd"] for command in rig.asked} == QUESTIONS | CHANGES - {"config"}
        assert "remove c1 by the token operator from 10.0.0.5" in rig.text.getvalue()
        for secret in (reader, operator):
            assert secret not in rig.text.getvalue()


@pytest.mark.parametrize("name", ["probe", "reload_users", "report", "sparkplug_write", "nothing", None, ["status"]])
async def test_nothing_else_is_offered(tmp_path: Path, name: object) -> None:
    async with Rig(tmp_path) as rig:
        said = await ask(rig, token(tmp_path, OPERATOR), {"cmd": name})
        assert said.status == 404
        assert rig.asked == []


async def test_what_the_broker_refuses_and_a_broker_that_is_away(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.answers["session"] = CommandError("no session of x")
        said = await ask(rig, token(tmp_path, READ_ONLY), {"cmd": "session", "client_id": "x"})
        assert (said.status, json.loads(said.text)) == (409, {"error": "no session of x"})
    async with Rig(tmp_path, broker=False) as rig:
        said = await ask(rig, token(tmp_path, OPERATOR), {"cmd": "status"})
        assert said.status == 503
        assert "does not answer" in said.text


async def test_never_without_encryption(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        for where in (FAR, {"client": "127.0.0.1", "server": "127.0.0.1"}):
            said = await ask(rig, token(tmp_path / str(where), OPERATOR), {"cmd": "status"}, scheme="http", **where)
            assert said.status == 403
        assert rig.asked == []


async def test_who_is_no_holder_is_told_nothing_and_soon_not_heard(tmp_path: Path) -> None:
    """Neither a cookie nor a password of the page is a token."""
    async with Rig(tmp_path) as rig:
        rig.answers["status"] = 1
        good = token(tmp_path, OPERATOR)
        rig.passwords.add("ann", b"right")
        await rig.post("/login", form={"user": "ann", "password": "right"}, **FAR)
        for wrong in ("", "x", good[:-1], good.upper(), "right"):
            said = await ask(rig, wrong, {"cmd": "status"})
            assert said.status == 401
            assert said.headers["www-authenticate"].startswith("Bearer")
        assert FAILURES_MAX == 5
        said = await ask(rig, good, {"cmd": "status"})
        assert said.status == 429
        assert int(said.headers["retry-after"]) > 0
        assert rig.asked == []
        assert (await ask(rig, good, {"cmd": "status"}, client="10.0.0.9")).status == 200
        assert "10.0.0.5 came for the control without a valid token" in rig.text.getvalue()
        assert good[:-1] not in rig.text.getvalue()


async def test_a_token_that_was_revoked_is_none_from_then_on(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.answers["status"] = 1
        good = token(tmp_path, READ_ONLY)
        assert (await ask(rig, good, {"cmd": "status"})).status == 200
        Tokens(tmp_path / "tokens").revoke(READ_ONLY)
        assert (await ask(rig, good, {"cmd": "status"})).status == 401


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"status"', b"[" * 5000, b" " * (BYTES_MAX + 1)])
async def test_bad_requests(tmp_path: Path, body: bytes) -> None:
    async with Rig(tmp_path) as rig:
        said = await ask(rig, token(tmp_path, OPERATOR), body)
        assert said.status == 400
        assert rig.asked == []


async def test_a_page_cannot_ask_for_it(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        assert (await ask(rig, token(tmp_path, OPERATOR), {"cmd": "status"}, method="GET")).status == 405


async def test_settings_are_changed_in_the_file_and_in_the_broker(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        operator = token(tmp_path, OPERATOR)
        change = {"cmd": "config", "set": {"mqtt.max_inflight": 50, "sys_interval": None}}
        said = await ask(rig, operator, {**change, "dry_run": True})
        assert rig.config.read_text() == FILE
        diff = json.loads(said.text)["result"]["diff"]
        assert [line for line in diff if line[0] in "+-"][2:] == [
            "-sys_interval = 0",
            "+",
            "+[mqtt]",
            "+max_inflight = 50",
        ]
        rig.answers["reload"] = ["durability"]
        said = await ask(rig, operator, change)
        told = json.loads(said.text)["result"]
        assert (told["file"], told["later"], told["fault"]) == (str(rig.config), ["durability"], "")
        assert rig.config.read_text() == "# ours\n\n[mqtt]\nmax_inflight = 50\n"
        assert rig.asked == [{"cmd": "reload"}]
        assert "config mqtt.max_inflight, sys_interval by the token operator" in rig.text.getvalue()
        rig.answers["reload"] = CommandError("something is wrong")
        told = json.loads((await ask(rig, operator, {**change, "set": {"sys_interval": 1}})).text)["result"]
        assert told["fault"] == "something is wrong"


async def test_bad_changes_change_nothing(tmp_path: Path) -> None:
    async with Rig(tmp_path, config=FILE) as rig:
        operator = token(tmp_path, OPERATOR)
        for changes, status in (
            ({"sys_interval": "never"}, 422),
            ({"nothing": 1}, 422),
            ({}, 409),
            (None, 409),
            ([], 409),
        ):
            said = await ask(rig, operator, {"cmd": "config", "set": changes})
            assert said.status == status, changes
        assert rig.config.read_text() == FILE
        assert rig.asked == []
    async with Rig(tmp_path) as rig:
        said = await ask(rig, operator, {"cmd": "config", "set": {"sys_interval": 1}})
        assert said.status == 409
        assert "forebay run --config FILE" in said.text
