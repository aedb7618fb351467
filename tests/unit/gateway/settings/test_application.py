"""The settings of the application log, for all clients and by rule."""

from pathlib import Path

from gateway.core.limits import ClientRule
from gateway.settings.table import Sources, load


def test_what_a_file_says_reaches_the_core(tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text(
        "[application_log]\nmax_bytes = \"10MiB\"\nmax_age = \"7d\"\ndrain_rate = 500\nstart = \"earliest\"\n"
        'keep_bytes = "1GiB"\nkeep_age = "1d"\n[[client_type]]\nclient_id = "c"\ntype = "application"\n'
        'start = "end"\nmax_bytes = "unlimited"\ndrain_rate = 9\n'
    )  # fmt: skip
    limits = load(Sources(path), {}).limits()
    assert (limits.app_max_bytes, limits.app_max_age_s, limits.app_drain_rate) == (10 << 20, 604_800, 500)
    assert (limits.app_start, limits.log_keep_bytes, limits.log_keep_age_s) == (1, 1 << 30, 86_400)
    assert limits.client_types == [ClientRule("c", "", True, 0, 0, drain_rate=9)]


def test_by_default_nothing_falls_off_and_nothing_stays() -> None:
    limits = load(Sources(), {}).limits()
    assert (limits.app_max_bytes, limits.app_max_age_s, limits.app_drain_rate) == (0, 0, 0)
    assert (limits.app_start, limits.log_keep_bytes) == (0, 0)
