"""Which address leads where."""

import time
from pathlib import Path

from gateway.auth import Passwords
from gateway.settings import Sources, load
from gateway.web.access import Access
from gateway.web.app import application
from gateway.web.control import Control
from gateway.web.poll import Poll
from tests.asgi import called


async def test_what_is_nowhere_is_not_found(tmp_path: Path) -> None:
    settings = load(Sources(sets=(f"data_dir={tmp_path}",)), {})
    access = Access(Passwords(settings.passwords), lambda user: True, b"k" * 32, False, time.monotonic)
    app = application(settings, access, Poll(Control(settings.control_socket)))
    for path in ("/nothing", "/metrics/x", "/static/../access.py"):
        assert (await called(app, path, client="10.0.0.5", server="10.0.0.1")).status == 404
