"""What clients share: who they are, whom they trust. How they end shows in the tests of the commands."""

from pathlib import Path

import pytest

from gateway.cli.connecting import password_of, tls_with
from gateway.cli.options import UsageError


def test_a_password_needs_a_user(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("right\n")
    assert password_of("anna", tmp_path / "secret") == b"right"
    assert password_of(None, None) is None
    with pytest.raises(UsageError, match="--password-file: expected --user too"):
        password_of(None, tmp_path / "secret")


def test_what_is_no_ca_is_refused(tmp_path: Path) -> None:
    assert tls_with(None) is None
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(UsageError, match=f"{name}: cannot be used as a CA"):
            tls_with(tmp_path / name)
