"""One gateway with a plant behind it, one browser, and a visitor of its own for each test."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.access import Access
from gateway.auth import Passwords
from gateway.core.acl import OPERATOR
from tests.browser import chromium
from tests.browser.plant import Plant
from tests.harness import Broker, free_port
from tests.page import Page, broker_with_page

WIDTHS = (360, 1280)
USER, PASSWORD = "ann", "correct horse"


class Stand(NamedTuple):
    broker: Broker
    page: Page
    plant: Plant
    config: Path
    ws: int  # port of the WebSocket listener

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.page.port}"


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    why = chromium.missing()
    if why:
        pytest.skip(why)
    with chromium.running() as found:
        yield found


@pytest.fixture(scope="package")
def stand(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("stand")
    config = folder / "forebay.toml"
    config.write_text("# The gateway of hall 3.\n\n[mqtt]\nmax_inflight = 40 # as the historian asks\n")
    ws = free_port()
    settings = {"http.login": "always", "allow_anonymous": "true", "listeners.ws": f"127.0.0.1:{ws}"}
    broker, page = broker_with_page(folder / "data", settings, arguments=["--config", str(config)])
    broker.data_dir.mkdir()
    Passwords(broker.data_dir / "passwd").add(USER, PASSWORD.encode())
    access = Access(broker.data_dir / "access.toml")
    with access.change():
        access.roles[USER] = OPERATOR
    with broker:
        page.wait()
        plant = Plant(broker.port).start()
        yield Stand(broker, page, plant, config, ws)
        plant.close()
        assert "Traceback" not in broker.log()


@pytest.fixture(scope="package")
def login(stand: Stand, browser: Any) -> Any:
    """What a browser keeps of a login."""
    context = browser.new_context()
    visitor = context.new_page()
    sign_in(visitor, stand)
    kept = context.storage_state()
    context.close()
    return kept


@pytest.fixture(params=WIDTHS, ids=lambda width: f"{width} px")
def width(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def stranger(browser: Any, width: int) -> Iterator[Any]:
    """A page of a browser that has not been here."""
    yield from visit(browser, width, None)


@pytest.fixture
def visitor(browser: Any, width: int, login: Any) -> Iterator[Any]:
    """A page of one who is logged in."""
    yield from visit(browser, width, login)


def visit(browser: Any, width: int, login: Any, **more: Any) -> Iterator[Any]:
    """A page on which nothing may go wrong: no error, nothing blocked, nothing from elsewhere."""
    context = browser.new_context(viewport={"width": width, "height": 800}, storage_state=login, **more)
    context.set_default_timeout(30_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not own(request.url) else None)
    yield page
    context.close()
    # the browser tells of each refusal that a test provokes
    assert [text for text in wrong if not re.search(r"status of 4\d\d", text)] == []


def own(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:"))


def sign_in(page: Any, stand: Stand, user: str = USER, password: str = PASSWORD) -> None:
    page.goto(stand.address)
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
