"""Runs a fuzz target of this folder in a process of its own, on the files of the tree."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
RUNS_MIN: Final = 500  # they reach all that counts; how many more there are is the machine's affair


def fuzz(target: str, tmp_path: Path, seconds: int, length_max: int, coverage_min: int) -> None:
    """It must find nothing, run at least RUNS_MIN inputs, and reach that many places of the code."""
    # the files of the tree, interpreted, whatever is installed
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = str(ROOT)
    probe = subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True, text=True, env=environment)
    if probe.returncode:
        pytest.skip(f"atheris has no wheel here: {probe.stderr.strip().splitlines()[-1]}")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={length_max}",
        "-timeout=60",
        "-rss_limit_mb=1024",
        "-print_final_stats=1",
    ]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fuzz" / target), str(corpus), *options, f"-artifact_prefix={tmp_path}/"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    report = done.stdout + done.stderr
    findings = [path.read_bytes().hex() for path in tmp_path.iterdir() if path.is_file()]
    assert done.returncode == 0, f"input {findings}\n{report[-4000:]}"
    assert not findings
    runs = re.search(r"number_of_executed_units: (\d+)", report)
    assert runs is not None, report[-4000:]
    assert int(runs.group(1)) > RUNS_MIN
    coverage = [int(found) for found in re.findall(r"cov: (\d+)", report)]
    assert coverage[-1] > coverage_min, "the code is not instrumented"
