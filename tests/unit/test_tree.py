"""Rules of the tree that no other tool holds."""

import ast
import gc
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "sparkplug")
MODULE_LINES_MAX = 450
FUNCTION_LINES_MAX = 69
# Covered by the test of what they are part of.
NO_TEST_OF_THEIR_OWN = {
    "gateway/__main__.py": "tests/unit/gateway/cli/test_main.py",
    "gateway/broker.py": "tests/system/test_broker.py",
    "gateway/entrance.py": "tests/system/test_security.py",
    "gateway/consumer/stats.py": "tests/unit/gateway/consumer/test_metrics.py",
    "gateway/core/batch.py": "tests/unit/gateway/store/test_apply.py",
    "gateway/core/limits.py": "tests/unit/gateway/settings/test_table.py",
    "gateway/mqtt/packets.py": "tests/unit/gateway/mqtt/test_encode.py",
    "gateway/store/errors.py": "tests/unit/gateway/store/test_sqlite.py",
    "gateway/store/kafka.py": "tests/system/test_kafka.py",
    "gateway/store/kafka_topics.py": "tests/system/test_kafka.py",
    "gateway/store/kafka_writer.py": "tests/system/test_kafka.py",
    "sparkplug/actions.py": "tests/unit/sparkplug/test_node.py",
    "sparkplug/check/observed.py": "tests/unit/sparkplug/check/test_checker.py",
}


def modules(*folders: str) -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "node_modules" not in path.parts
    )


def parsed(path: Path) -> ast.Module:
    gc.disable()  # a finalizer that runs inside the parser of CPython 3.11 can make it fail
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("module", modules(*PACKAGES))
def test_modules_and_functions_stay_short(module: str) -> None:
    assert len((ROOT / module).read_text().splitlines()) <= MODULE_LINES_MAX
    assert [name for name, lines in functions(ROOT / module) if lines > FUNCTION_LINES_MAX] == []


@pytest.mark.parametrize("module", [name for name in modules(*PACKAGES) if not name.endswith("__init__.py")])
def test_every_module_has_a_test_file_at_the_same_path(module: str) -> None:
    path = Path(module)
    covered = NO_TEST_OF_THEIR_OWN.get(module)
    places = [covered] if covered else [f"tests/unit/{path.parent}/test_{path.name}"]
    assert any((ROOT / place).exists() for place in places), places


def test_the_exceptions_are_modules() -> None:
    for module in NO_TEST_OF_THEIR_OWN:
        assert (ROOT / module).exists(), module


def test_init_files_hold_no_code() -> None:
    for module in modules(*PACKAGES):
        if module.endswith("__init__.py"):
            text = (ROOT / module).read_text().strip()
            assert not text or re.fullmatch(r'__version__ = "\d+\.\d+\.\d+"', text)


def test_no_marker_is_left_over() -> None:
    marker = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
    for module in modules(*PACKAGES, "tests"):
        assert not marker.search((ROOT / module).read_text()), module


def test_no_build_is_left_in_the_tree() -> None:
    """A compiled file in the tree would be imported in place of the source beside it, unseen."""
    assert [str(path) for folder in PACKAGES for path in (ROOT / folder).rglob("*.so")] == []


def test_make_help_lists_every_target_and_there_are_few() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^  make ([a-z]+) +\S", shown, re.MULTILINE) == targets
    assert len(targets) <= 12


def test_the_pins_name_no_address() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        assert "--index" not in text
        assert all("==" in line for line in text.splitlines() if line and not line.startswith(" "))


def test_the_ci_script_runs_lint_and_test() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "make lint" in script
    assert "make test" in script
