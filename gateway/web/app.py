"""The HTTP application: which address leads where."""

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.settings import Settings
from gateway.web.access import Access
from gateway.web.headers import Headers
from gateway.web.health import Health
from gateway.web.poll import Poll


def application(settings: Settings, access: Access, poll: Poll) -> ASGIApp:
    """The ASGI application."""
    health = Health(access, poll, settings.http_metrics_open, settings.http_session_metrics)
    routes = [
        Route("/metrics", health.metrics),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
    ]
    return Headers(Starlette(routes=routes))
