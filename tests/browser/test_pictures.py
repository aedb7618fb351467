"""Pictures of the page, light and dark, on a phone and on a desk: into FOREBAY_PICTURES (``make docs``) or nowhere."""

import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser.conftest import WIDTHS, Stand, visit
from tests.browser.test_page import NODE_PAGE

WHERE: Final = os.environ.get("FOREBAY_PICTURES", "")
SEEN: Final = {
    "overview": "/",
    "sessions": "/sessions",
    "session": "/session?id=historian-away",
    "flows": "/flows",
    "sparkplug": "/sparkplug",
    "node": NODE_PAGE,
    "uplinks": "/uplinks",
    "settings": "/settings",
    "log": "/log",
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_of_each_page(
    browser: Any, stand: Stand, login: Any, width: int, scheme: str, tmp_path: Path
) -> None:
    folder = Path(WHERE) if WHERE else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    pages = visit(browser, width, login, color_scheme=scheme)
    page = next(pages)
    # all of them for the docs; else only what shows that a picture can be made
    for name, path in SEEN.items() if WHERE else [("overview", SEEN["overview"])]:
        page.goto(stand.address + path)
        page.wait_for_function("() => document.querySelector('#view, form.setting, main .card, main details') !== null")
        picture = folder / f"{name}-{width}-{scheme}.png"
        page.screenshot(path=str(picture), full_page=True)
        png = picture.read_bytes()
        assert png.startswith(b"\x89PNG")
        assert int.from_bytes(png[16:20], "big") == width
    next(pages, None)
