"""The HTTP application: which address leads where."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from gateway.tokens import FILE, Tokens
from gateway.web.edit import Editing
from gateway.web.headers import Headers
from gateway.web.health import Health
from gateway.web.pages import Door, PagesOf
from gateway.web.remote import Remote
from gateway.web.site import Site


def application(site: Site) -> ASGIApp:
    """The ASGI application. Raises TokenError."""
    settings = site.settings
    health = Health(site.access, site.poll, settings.http_metrics_open, settings.http_session_metrics)
    pages, door = PagesOf(site), Door(site)
    editing = Editing(site, pages)
    remote = Remote(site, Tokens(settings.data_dir / FILE))
    routes = [
        Route("/metrics", health.metrics),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        Route("/api/control", remote.control, methods=["POST"]),
        Route("/", door.guard(pages.overview)),
        Route("/sessions", door.guard(pages.sessions)),
        Route("/session", door.guard(pages.session)),
        Route("/session/end", door.guard(pages.session_end), methods=["GET", "POST"]),
        Route("/flows", door.guard(pages.flows)),
        Route("/uplinks", door.guard(pages.uplinks)),
        Route("/sparkplug", door.guard(pages.sparkplug)),
        Route("/node", door.guard(pages.node)),
        Route("/node/rebirth", door.guard(pages.rebirth), methods=["POST"]),
        Route("/settings", door.guard(editing.show)),
        Route("/settings/review", door.guard(editing.review), methods=["POST"]),
        Route("/settings/save", door.guard(editing.save), methods=["POST"]),
        Route("/log", door.guard(pages.log)),
        Route("/live", door.guard(pages.live)),
        Route("/login", door.guard(pages.login, open=True), methods=["GET", "POST"]),
        Route("/logout", door.guard(pages.logout, open=True), methods=["POST"]),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    return Headers(Starlette(routes=routes))
