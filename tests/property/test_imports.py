"""Files of other brokers' settings, whatever is in them: read, or refused in one line."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.imports import emqx, environment, hocon, tbmq
from gateway.imports.convert import convert
from gateway.imports.table import Given, ImportFileError, Origin

_KEYS = [row.key for row in emqx.EMQX.rows] + [row.env for row in tbmq.TBMQ.rows]
_PIECES = ["{", "}", "[", "]", "=", ":", ",", ".", '"', '"""', "\\", "\n", "#", "//", "${", "$", "- ", " ", "&a", "*a"]
_TEXTS = st.lists(st.sampled_from(_PIECES + _KEYS) | st.text(max_size=4), max_size=20).map("".join)


def _one_line(error: ImportFileError) -> None:
    assert str(error) and "\n" not in str(error)


def _converted(origin: Origin, items: list[Given]) -> None:
    try:
        result = convert(origin, items)
    except ImportFileError as error:
        _one_line(error)
        return
    for remark in result.remarks:
        assert remark.isprintable()
    for line in result.toml():
        assert line.isprintable()


@given(_TEXTS)
def test_hocon(text: str) -> None:
    try:
        items = hocon.read(text, emqx.MAPS)
    except ImportFileError as error:
        _one_line(error)
        return
    _converted(emqx.EMQX, items)


@given(_TEXTS)
def test_environment(text: str) -> None:
    try:
        items = environment.read(text)
    except ImportFileError as error:
        _one_line(error)
        return
    _converted(tbmq.TBMQ, items)


@given(st.sampled_from([row.key for row in emqx.EMQX.rows]), st.text())
def test_values_of_emqx(key: str, text: str) -> None:
    _converted(emqx.EMQX, [Given(key, text, 1)])


@given(st.sampled_from([row.key for row in tbmq.TBMQ.rows]), st.text())
def test_values_of_tbmq(key: str, text: str) -> None:
    _converted(tbmq.TBMQ, [Given(key, text, 1)])
