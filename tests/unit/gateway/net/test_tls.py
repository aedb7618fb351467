import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from gateway.net.tls import TlsError, server_context


def issue(folder: Path) -> tuple[Path, Path]:
    made = trustme.CA().issue_cert("localhost", "127.0.0.1")
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    return cert, key


def test_tls_1_2_is_the_oldest_unless_told_otherwise(tmp_path: Path) -> None:
    cert, key = issue(tmp_path)
    assert server_context(cert, key).minimum_version == ssl.TLSVersion.TLSv1_2
    assert server_context(cert, key, "1.3").minimum_version == ssl.TLSVersion.TLSv1_3


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    cert, _ = issue(tmp_path)
    with pytest.raises(TlsError, match=r"nothing\.pem: No such file"):
        server_context(cert, tmp_path / "nothing.pem")


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    cert, _ = issue(tmp_path)
    (tmp_path / "other").mkdir()
    _, key = issue(tmp_path / "other")
    with pytest.raises(TlsError, match="key values mismatch"):
        server_context(cert, key)


def test_what_is_no_certificate_is_refused_in_one_line(tmp_path: Path) -> None:
    _, key = issue(tmp_path)
    (tmp_path / "no.pem").write_text("hello")
    with pytest.raises(TlsError) as caught:
        server_context(tmp_path / "no.pem", key)
    assert "no.pem" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_encrypted_key_is_refused_and_asks_nobody(tmp_path: Path) -> None:
    cert, key = issue(tmp_path)
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsError, match="encrypted"):
        server_context(cert, key)
