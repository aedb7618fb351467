"""Whoever uses the SDK sees a type for everything: pyright's own count."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Broker
from tests.system.drivers import NODE, install_npm


@pytest.mark.timeout(180)
def test_all_that_the_sdk_shows_has_a_type(tmp_path: Path) -> None:
    reason = install_npm("pyright")
    if reason:
        pytest.skip(reason)
    node = shutil.which("node")
    assert node is not None
    line = [
        node,
        str(NODE / "node_modules" / "pyright" / "index.js"),
        "--outputjson",
        "--verifytypes",
        "gateway.consumer",
    ]
    done = subprocess.run(
        [*line, "--pythonpath", sys.executable],
        cwd=tmp_path, env=Broker(tmp_path / "data").environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)["typeCompleteness"]
    wrong = [symbol["name"] for symbol in found["symbols"] if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    assert wrong == []
    assert found["completenessScore"] == 1
    assert found["exportedSymbolCounts"]["withKnownType"] > 300
