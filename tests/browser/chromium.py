"""A real Chromium without a window, driven over its own protocol."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.system.drivers import NODE, install_npm

BINARIES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def missing() -> str:
    """Why no browser can be had here, empty when one can."""
    if binary() is None:
        return "no Chromium is installed (apt install chromium)"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "playwright, which drives the browser, has no build for this machine"
    return ""


def binary() -> str | None:
    return next((found for name in BINARIES if (found := shutil.which(name))), None)


@contextmanager
def running() -> Iterator[Any]:
    """A browser; each of its contexts is a new visitor."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        # as root it runs only without its sandbox; what it is shown here is our own page
        browser = tools.chromium.launch(executable_path=binary(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


def axe() -> Path | str:
    """The script of axe-core, or why it cannot be had."""
    return install_npm("axe-core") or NODE / "node_modules" / "axe-core" / "axe.min.js"
