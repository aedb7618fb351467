"""Templates."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from gateway.web.render import HERE, Pages


def test_what_is_put_in_is_escaped() -> None:
    said = Pages().fragment("live/none", {"why": "<b>'\"&"})
    assert "&lt;b&gt;" in said
    assert "<b>" not in said


def test_a_value_that_is_missing_is_a_defect() -> None:
    with pytest.raises(UndefinedError):
        Pages().fragment("live/none", {})


@pytest.mark.parametrize("path", sorted(HERE.glob("templates/**/*.html")), ids=lambda path: path.name)
def test_no_template_has_what_the_policy_forbids(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert "|safe" not in text.replace(" ", "")
    for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", text, re.DOTALL):
        assert 'name="token"' in form


def test_nothing_comes_from_elsewhere() -> None:
    for path in [*HERE.glob("templates/**/*.html"), *HERE.glob("static/*")]:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE), path
