"""Runs the fuzz target for FUZZ_SECONDS (10): it must find nothing."""

import os
from pathlib import Path

import pytest

from tests.fuzz.running import fuzz

SECONDS = int(os.environ.get("FUZZ_SECONDS", "10"))


@pytest.mark.timeout(SECONDS + 120)
def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    fuzz("fuzz_decoder.py", tmp_path, SECONDS, length_max=600, coverage_min=200)
