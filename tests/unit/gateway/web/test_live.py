"""Events of an open page."""

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from gateway.web import live as module
from gateway.web.live import event, live
from tests import asgi
from tests.unit.gateway.web.rig import FAR, Rig


async def opened(rig: Rig, path: str = "/live?view=overview", **more: Any) -> Any:
    response = await live(rig.site, Request(asgi.scope(path, **more)))
    assert isinstance(response, StreamingResponse)
    return response.body_iterator


async def after(stream: Any) -> str:
    text = await asyncio.wait_for(anext(stream), 60)
    assert isinstance(text, str)
    return text


def test_lines_of_an_event() -> None:
    assert event("view", "a\nb") == "event: view\ndata: a\ndata: b\n\n"


async def test_a_page_gets_its_view_at_once_and_again_when_it_changed(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        stream = await opened(rig)
        assert (await after(stream)).startswith("event: state\n")
        assert "<b>70</b>" in await after(stream)
        assert rig.site.poll.lookers == 1
        next_one = asyncio.create_task(after(stream))
        await asyncio.sleep(0)
        await rig.site.poll.ask()  # says the same
        rig.answers["report"]["status"]["queue"]["messages"] = 71
        await rig.site.poll.ask()
        assert "<b>71</b>" in await next_one
        await stream.aclose()
        assert rig.site.poll.lookers == 0


async def test_silence_is_filled(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.01)
    async with Rig(tmp_path) as rig:
        stream = await opened(rig)
        await after(stream)
        await after(stream)
        assert await after(stream) == ":\n\n"
        await stream.aclose()


async def test_who_is_no_longer_let_in_is_told_so(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        stream = await opened(rig, **FAR)
        assert await after(stream) == "event: bye\ndata: \n\n"
        assert rig.site.poll.lookers == 1
        await stream.aclose()
        assert rig.site.poll.lookers == 0


async def test_a_view_that_is_none_and_too_many_pages_are_refused(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        assert (await rig.get("/live?view=nothing")).status == 404
        for _ in range(module.STREAMS_MAX):
            rig.site.poll.look()
        assert (await rig.get("/live?view=overview")).status == 503
