from pathlib import Path

import pytest

from gateway.image.build import source_epoch
from gateway.image.plan import BuildError

TOP = Path(__file__).parents[4]


def test_the_time_of_a_build_is_that_of_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert source_epoch(tmp_path) == 1_790_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(BuildError, match="SOURCE_DATE_EPOCH = today: expected a number"):
        source_epoch(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    with pytest.raises(BuildError, match="no git history here: expected SOURCE_DATE_EPOCH"):
        source_epoch(tmp_path)
    if (TOP / ".git").exists():
        assert source_epoch(TOP) > 1_700_000_000
