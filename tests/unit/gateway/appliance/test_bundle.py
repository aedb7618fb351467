import os
from pathlib import Path

import pytest

from gateway.appliance.bundle import Bundle, BundleError, read_bundle, require_fit
from gateway.appliance.journal import Version
from tests.signed import authority, bundle, needs_rauc

NEW = Version("1.3.0", 4, 3)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority(tmp_path_factory.mktemp("keys") / "ours")


def refused(path: Path, keys: Path) -> str:
    with pytest.raises(BundleError) as error:
        read_bundle(path, (f"--keyring={keys}/ca.crt",))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value)


@needs_rauc
def test_what_is_in_it(keys: Path, tmp_path: Path) -> None:
    path = bundle(tmp_path / "a.raucb", keys, NEW, root=os.urandom(700_000))
    assert read_bundle(path, (f"--keyring={keys}/ca.crt",)) == Bundle(path, "forebay-test", NEW)


@needs_rauc
def test_signed_by_somebody_else(keys: Path, tmp_path: Path) -> None:
    path = bundle(tmp_path / "a.raucb", authority(tmp_path / "theirs"), NEW)
    assert "signature verification failed" in refused(path, keys)


@needs_rauc
def test_each_changed_byte_of_the_payload_is_seen(keys: Path, tmp_path: Path) -> None:
    """Which rauc info alone would not see."""
    path = bundle(tmp_path / "a.raucb", keys, NEW, root=os.urandom(700_000))
    data = bytearray(path.read_bytes())
    for at in (200, 350_000, 650_000):
        data[at] ^= 1
        path.write_bytes(data)
        assert "its payload is not what was signed" in refused(path, keys)
        data[at] ^= 1


@needs_rauc
def test_a_changed_or_cut_signature(keys: Path, tmp_path: Path) -> None:
    path = bundle(tmp_path / "a.raucb", keys, NEW)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[:-100])
    assert refused(path, keys)
    data[-60] ^= 1
    path.write_bytes(data)
    assert "signature" in refused(path, keys)
    path.write_bytes(b"")
    assert refused(path, keys)
    path.unlink()
    assert refused(path, keys)


RUNNING = Version("1.2.0", 3, 3)


def fit(holds: Version, data: int = 3, no_rollback: bool = False, compatible: str = "forebay-test") -> str:
    try:
        require_fit(Bundle(Path("u.raucb"), compatible, holds), "forebay-test", RUNNING, data, no_rollback)
    except BundleError as error:
        return str(error)
    return ""


def test_the_board_and_the_data_must_fit() -> None:
    assert fit(NEW) == ""
    assert fit(NEW, compatible="forebay-rpi") == "u.raucb: for the board forebay-rpi, this one is forebay-test"
    raises = Version("2.0.0", 5, 5)
    assert "more (schema 5, it knows 3): no way back, which --no-rollback accepts" in fit(raises)
    assert fit(raises, no_rollback=True) == ""
    old = Version("1.0.0", 2, 2)
    assert "cannot read the data that are here (it knows schema 2, they need 3)" in fit(old)
    assert "cannot read" in fit(old, no_rollback=True)
    assert fit(old, data=0) == ""
