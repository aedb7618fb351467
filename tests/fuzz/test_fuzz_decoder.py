"""Runs the fuzz target for FUZZ_SECONDS (60): it must find nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))


@pytest.mark.timeout(SECONDS + 120)
def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    # the files of the tree, interpreted, whatever is installed
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = str(ROOT)
    probe = subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True, text=True, env=environment)
    if probe.returncode:
        pytest.skip(f"atheris has no wheel here: {probe.stderr.strip().splitlines()[-1]}")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    target = ROOT / "tests" / "fuzz" / "fuzz_decoder.py"
    options = [
        f"-max_total_time={SECONDS}",
        "-max_len=600",
        "-timeout=10",
        "-rss_limit_mb=1024",
        "-print_final_stats=1",
    ]
    done = subprocess.run(
        [sys.executable, str(target), str(corpus), *options, f"-artifact_prefix={tmp_path}/"],
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
    assert int(runs.group(1)) > 100 * SECONDS
    coverage = [int(found) for found in re.findall(r"cov: (\d+)", report)]
    assert coverage[-1] > 200, "the decoder is not instrumented"
