"""The status page in a real Chromium, on a phone and on a desk."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.conftest import PASSWORD, USER, Stand, sign_in, visit
from tests.browser.plant import NODE
from tests.page import wait_for

NODE_PAGE = "/node?id=presses/press%207"
PAGES = (
    "/",
    "/sessions",
    "/session?id=historian-away",
    "/flows",
    "/sparkplug",
    NODE_PAGE,
    "/uplinks",
    "/settings",
    "/log",
)
BYTES_MAX = 150_000


def number(page: Any, selector: str) -> float:
    return float(page.locator(selector).first.inner_text().replace(",", ""))


def see(page: Any, text: str) -> None:
    page.get_by_text(text).first.wait_for()


# Coming in


def test_who_does_not_know_the_password_stays_out(stranger: Any, stand: Stand) -> None:
    sign_in(stranger, stand, USER, "wrong")
    see(stranger, "User and password do not fit")
    assert stranger.title().startswith("Log in")
    stranger.goto(f"{stand.address}/settings")
    assert stranger.title().startswith("Log in")


def test_a_login_leads_to_the_page_that_was_asked_for_and_ends(stranger: Any, stand: Stand) -> None:
    stranger.goto(f"{stand.address}/sessions")
    stranger.get_by_label("User").fill(USER)
    stranger.get_by_label("Password").fill(PASSWORD)
    stranger.get_by_role("button", name="Log in").click()
    stranger.get_by_role("heading", name="Sessions").wait_for()
    stranger.get_by_role("button", name=re.compile("Log out")).click()
    stranger.get_by_role("heading", name="Log in").wait_for()


# What it shows


def test_numbers_move_by_themselves(visitor: Any, stand: Stand) -> None:
    visitor.goto(stand.address)
    visitor.wait_for_function("() => Number(document.querySelector('.in .big b').textContent) > 1")
    held = number(visitor, ".held b")
    visitor.wait_for_function(
        "was => Number(document.querySelector('.held b').textContent.replaceAll(',', '')) > was", arg=held
    )
    assert visitor.locator(".hero svg.spark").count() == 2


def test_a_queue_grows_before_ones_eyes_and_focus_stays_where_it_is(visitor: Any, stand: Stand) -> None:
    visitor.goto(f"{stand.address}/sessions")
    link = visitor.get_by_role("link", name="historian-away")
    link.focus()
    cell = "[data-key='s-historian-away'] td[data-label='Waiting'] b"
    was = visitor.locator(cell).inner_text()
    visitor.wait_for_function("([cell, was]) => document.querySelector(cell).textContent !== was", arg=[cell, was])
    assert visitor.evaluate("document.activeElement.textContent") == "historian-away"
    visitor.keyboard.press("Enter")
    visitor.get_by_role("heading", name="historian-away").wait_for()
    see(visitor, "plant/#")


def test_values_of_a_node_come_live_and_a_rebirth_reaches_it(visitor: Any, stand: Stand) -> None:
    visitor.goto(f"{stand.address}/sparkplug")
    visitor.get_by_role("link", name=NODE.partition("/")[2]).click()
    row = "[data-key='m-/Strokes'] b"
    was = visitor.locator(row).inner_text()
    visitor.wait_for_function("([row, was]) => document.querySelector(row).textContent !== was", arg=[row, was])
    commands = stand.plant.commands
    visitor.get_by_role("button", name="Ask for a rebirth").click()
    see(visitor, "Asked for a rebirth.")
    wait_for(lambda: stand.plant.commands == commands + 1, "the node was not asked")


def test_a_setting_is_changed_after_a_look_at_the_difference(visitor: Any, stand: Stand, width: int) -> None:
    wanted = str(40 + width % 100)
    visitor.goto(f"{stand.address}/settings")
    see(visitor, "Nothing changed")
    visitor.locator("summary", has_text="mqtt").click()
    field = visitor.get_by_label("mqtt.max_inflight")
    field.fill("many")
    see(visitor, "1 change")
    visitor.get_by_role("button", name="Review changes").click()
    see(visitor, "mqtt.max_inflight = many: expected")
    visitor.locator("summary", has_text="mqtt").click()
    visitor.get_by_label("mqtt.max_inflight").fill(wanted)
    before = stand.config.read_text()
    visitor.get_by_role("button", name="Review changes").click()
    visitor.get_by_role("heading", name="Change these settings?").wait_for()
    lines = visitor.locator(".diff li")
    shown = [(lines.nth(n).get_attribute("class"), lines.nth(n).inner_text()) for n in range(lines.count())]
    assert [text for kind, text in shown if kind == "add"] == [f"+max_inflight = {wanted} # as the historian asks"]
    assert len([text for kind, text in shown if kind == "del"]) == 1
    assert stand.config.read_text() == before
    visitor.get_by_role("button", name="Save and apply").click()
    see(visitor, "In force now.")
    assert f"max_inflight = {wanted} # as the historian asks" in stand.config.read_text()
    assert stand.config.read_text().startswith("# The gateway of hall 3.")


def test_the_log_tells_what_was_done_here(visitor: Any, stand: Stand) -> None:
    visitor.goto(f"{stand.address}/log")
    see(visitor, "listening on")


def test_a_broker_that_is_gone_is_seen_and_so_is_its_return(browser: Any, tmp_path: Path) -> None:
    from tests.page import broker_with_page

    broker, page = broker_with_page(tmp_path / "data")
    pages = visit(browser, 360, None)
    visitor = next(pages)
    with broker:
        page.wait()
        visitor.goto(f"http://127.0.0.1:{page.port}/")
        visitor.get_by_role("heading", name="Held", exact=True).wait_for()
        broker.kill9()
        see(visitor, "No connection to the gateway")
        broker.start()
        visitor.get_by_text("All delivered, none lost").wait_for()
    visitor.context.close()


# For everybody


def test_by_keyboard_alone(stranger: Any, stand: Stand) -> None:
    def focused() -> str:
        found: str = stranger.evaluate(
            "(e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent.trim())"
            "(document.activeElement)"
        )
        return found

    def tab_to(name: str, most: int = 40) -> None:
        for _ in range(most):
            stranger.keyboard.press("Tab")
            if focused().startswith(name):
                outline = stranger.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", name
                return
        raise AssertionError(f"no way to {name}")

    stranger.goto(stand.address)
    assert focused() == "User"
    stranger.keyboard.type(USER)
    tab_to("Password", 1)
    stranger.keyboard.type(PASSWORD)
    stranger.keyboard.press("Enter")
    stranger.get_by_role("heading", name="Overview").wait_for()
    tab_to("Skip to content", 1)
    stranger.keyboard.press("Enter")
    assert stranger.evaluate("document.activeElement.id") == "main"
    stranger.goto(stand.address)
    tab_to("Sparkplug")
    stranger.keyboard.press("Enter")
    stranger.get_by_role("heading", name="Sparkplug nodes").wait_for()
    tab_to("press 7")
    stranger.keyboard.press("Enter")
    stranger.get_by_role("heading", name=NODE).wait_for()
    tab_to("Ask for a rebirth")
    stranger.keyboard.press("Space")
    see(stranger, "Asked for a rebirth.")
    tab_to("Settings")
    stranger.keyboard.press("Enter")
    stranger.get_by_role("heading", name="Settings").wait_for()
    tab_to("log")
    stranger.keyboard.press("Enter")
    tab_to("log.format")
    stranger.keyboard.press("ArrowDown")
    tab_to("Review changes")
    stranger.keyboard.press("Enter")
    stranger.get_by_role("heading", name="Change these settings?").wait_for()
    tab_to("Leave as it is")
    stranger.keyboard.press("Enter")
    stranger.get_by_role("heading", name="Settings").wait_for()
    tab_to("Log out")
    stranger.keyboard.press("Enter")
    stranger.get_by_role("heading", name="Log in").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_nothing_serious_is_found_by_axe(browser: Any, stand: Stand, login: Any, width: int, scheme: str) -> None:
    script = chromium.axe()
    if isinstance(script, str):
        pytest.skip(script)
    pages = visit(browser, width, login, color_scheme=scheme, bypass_csp=True)
    page = next(pages)
    for path in PAGES:
        page.goto(stand.address + path)
        serious(page, script, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the screen"
    page.context.clear_cookies()
    page.goto(stand.address)
    serious(page, script, "/login")
    next(pages, None)


def serious(page: Any, script: Path, path: str) -> None:
    page.add_script_tag(path=str(script))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    bad = [
        (one["id"], [node["html"] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert bad == [], f"{path}: {json.dumps(bad, indent=1)}"


def test_pages_are_small(browser: Any, stand: Stand, login: Any) -> None:
    for path in PAGES:
        sizes = weighed(browser, login, stand.address + path)
        assert len(sizes) >= 3
        assert sum(sizes.values()) < BYTES_MAX, sizes


def weighed(browser: Any, login: Any, address: str) -> dict[str, int]:
    """Bytes of a page and all that it loads, in a browser that has kept nothing of the pages before."""
    context = browser.new_context(storage_state=login)
    page, answers = context.new_page(), list[Any]()
    page.on("response", lambda answer: answers.append(answer))
    page.goto(address)
    page.wait_for_load_state("load")
    sizes = {answer.url: len(answer.body()) for answer in answers if "/live" not in answer.url}
    context.close()
    return sizes


def test_many_pages_at_once_all_move(browser: Any, stand: Stand, login: Any) -> None:
    context = browser.new_context(storage_state=login)
    pages = [context.new_page() for _ in range(5)]
    for page in pages:
        page.goto(stand.address)
    for page in pages:
        was = number(page, ".held b")
        page.wait_for_function(
            "was => Number(document.querySelector('.held b').textContent.replaceAll(',', '')) > was", arg=was
        )
    context.close()
