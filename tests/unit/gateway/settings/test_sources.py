"""A settings file as TOML, and the one line for one that is none."""

from pathlib import Path

import pytest

from gateway.settings.sources import SettingsError, Sources, read


def test_a_file_is_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_bytes(b"\xef\xbb\xbf[store]\nmax_bytes = 5\n")
    assert read(path) == {"store": {"max_bytes": 5}}
    assert Sources(path).sets == ()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"password = \"s3cret\"\nnothing\n", "line 2: nothing: not valid TOML"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"a = " + b"[" * 5000, "not valid TOML"),
        (b"a = " + b"9" * 5000, "a number with thousands of digits"),
    ],
)  # fmt: skip
def test_a_wrong_one_is_one_line(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "forebay.toml"
    path.write_bytes(data)
    with pytest.raises(SettingsError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert said in text
    assert "\n" not in text and "s3cret" not in text


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read(tmp_path / "none.toml")
