"""Every response says what a browser must not do with it."""

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gateway.web.headers import HEADERS, Headers
from tests.asgi import call


def test_every_answer_carries_them_and_is_kept_by_no_cache() -> None:
    app = Headers(Starlette(routes=[Route("/", PlainTextResponse("x"))]))
    for path in ("/", "/nothing"):
        answer = call(app, path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert answer.headers["cache-control"] == "no-store"


def test_no_inline_script_or_style_and_no_frame() -> None:
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in policy


def test_static_files_may_be_kept_if_they_are_asked_for_again() -> None:
    app = Headers(Starlette(routes=[Route("/static/app.css", PlainTextResponse("x"))]))
    assert call(app, "/static/app.css").headers["cache-control"] == "no-cache"
