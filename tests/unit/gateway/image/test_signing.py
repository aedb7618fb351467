import stat
from pathlib import Path

import pytest

from gateway.image.plan import BuildError
from gateway.image.signing import check, open_signing, sign


def test_keys_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "signing"
    signing = open_signing(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "ca.key", "signer.crt", "signer.key"]
    for name in ("ca.key", "signer.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    before = signing.key.read_bytes()
    assert open_signing(folder).key.read_bytes() == before


def test_a_folder_with_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("mine")
    with pytest.raises(BuildError, match=r"signer\.crt: not there"):
        open_signing(tmp_path)
    assert (tmp_path / "ca.crt").read_text() == "mine"


def test_a_signature_fits_one_file_and_one_authority(tmp_path: Path) -> None:
    data, signature = tmp_path / "data", tmp_path / "sig"
    data.write_bytes(b"content\r\n")
    signing = open_signing(tmp_path / "one")
    sign(signing, data, signature)
    check(data, signature, signing.authority)
    with pytest.raises(BuildError, match="its signature does not fit"):
        check(data, signature, open_signing(tmp_path / "two").authority)
    data.write_bytes(b"content\n")
    with pytest.raises(BuildError, match="its signature does not fit"):
        check(data, signature, signing.authority)
    with pytest.raises(BuildError, match="missing: not there"):
        check(data, tmp_path / "missing", signing.authority)
