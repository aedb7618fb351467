"""Files that were replaced are seen, those that are gone for a moment are not."""

from pathlib import Path

from gateway.uplink.files import Files


def test_a_replaced_file_is_told_once(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert", tmp_path / "key"
    cert.write_text("1")
    key.write_text("1")
    files = Files([cert, None, key])
    assert not files.changed()
    fresh = tmp_path / "fresh"
    fresh.write_text("2")
    fresh.replace(key)
    assert files.changed()
    assert not files.changed()


def test_a_file_that_is_missing_says_nothing_until_it_is_there(tmp_path: Path) -> None:
    cert = tmp_path / "cert"
    cert.write_text("1")
    files = Files([cert])
    cert.unlink()
    assert not files.changed()
    cert.write_text("22")
    assert files.changed()
