import datetime
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.net.tls import Files, TlsError, server_context, user_of


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


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Both sides in memory; the server's, when it is done. Raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = server.wrap_bio(up, down, server_side=True)
    there = client.wrap_bio(down, up, server_hostname="localhost")
    for _ in range(4):
        for side in (there, here):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    here.do_handshake()
    return here


def trusting(authority: trustme.CA, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context


class Plant:
    """An authority, the gateway's files, and a client's certificate."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.cert, self.key, self.ca = folder / "cert.pem", folder / "key.pem", folder / "ca.pem"
        made = self.authority.issue_cert("localhost")
        self.cert.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        self.key.write_bytes(made.private_key_pem.bytes())
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.client = self.authority.issue_cert("plc-1.plant", common_name="plc-1")
        self.files = Files(self.cert, self.key, self.ca)


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


@pytest.mark.parametrize("required", [False, True])
def test_a_client_shows_its_certificate(plant: Plant, required: bool) -> None:
    context = plant.files.context(required)
    shown = handshake(context, trusting(plant.authority, plant.client)).getpeercert()
    assert user_of(shown, "cn") == "plc-1"
    assert user_of(shown, "san") == "plc-1.plant"
    with pytest.raises(ssl.SSLError):
        handshake(context, trusting(plant.authority, trustme.CA().issue_cert("stranger")))


def test_a_client_without_one_comes_in_only_where_none_is_required(plant: Plant) -> None:
    assert not handshake(plant.files.context(), trusting(plant.authority)).getpeercert()
    with pytest.raises(ssl.SSLError):
        handshake(plant.files.context(True), trusting(plant.authority))


def revocations(plant: Plant, *revoked: trustme.LeafCert) -> bytes:
    """A list of the plant's authority."""
    key = serialization.load_pem_private_key(plant.authority.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(plant.authority.cert_pem.bytes())
    day = datetime.timedelta(days=1)
    start = issuer.not_valid_before_utc
    made = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    made = made.last_update(start).next_update(issuer.not_valid_after_utc)
    for one in revoked:
        serial = x509.load_pem_x509_certificate(one.cert_chain_pems[0].bytes()).serial_number
        gone = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(start + day).build()
        made = made.add_revoked_certificate(gone)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_who_is_revoked_does_not_come_in(plant: Plant, tmp_path: Path) -> None:
    crl = tmp_path / "crl.pem"
    other = plant.authority.issue_cert("plc-2.plant", common_name="plc-2")
    crl.write_bytes(revocations(plant, plant.client))
    context = plant.files._replace(crl=crl).context(True)
    with pytest.raises(ssl.SSLError):
        handshake(context, trusting(plant.authority, plant.client))
    assert user_of(handshake(context, trusting(plant.authority, other)).getpeercert(), "cn") == "plc-2"


@pytest.mark.parametrize(("name", "data"), [("client_ca", b"hello"), ("crl", b"hello"), ("crl", None)])
def test_files_that_cannot_be_used_are_named(plant: Plant, tmp_path: Path, name: str, data: bytes | None) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_bytes(plant.ca.read_bytes() if data is None else data)
    files = plant.files
    with pytest.raises(TlsError, match=r"bad\.pem: ") as caught:
        (files._replace(crl=bad) if name == "crl" else files._replace(client_ca=bad)).context()
    assert "\n" not in str(caught.value)
    missing = tmp_path / "nothing.pem"
    with pytest.raises(TlsError, match=r"nothing\.pem: No such file"):
        (files._replace(crl=missing) if name == "crl" else files._replace(client_ca=missing)).context()


def test_a_stamp_changes_with_any_file(plant: Plant, tmp_path: Path) -> None:
    before = plant.files.stamp()
    assert plant.files.stamp() == before
    plant.key.write_bytes(plant.key.read_bytes())
    changed = plant.files.stamp()
    assert changed != before
    plant.ca.unlink()
    assert plant.files.stamp() != changed


@pytest.mark.parametrize(
    ("certificate", "cn", "san"),
    [
        ({}, "", ""),
        ({"subject": ((("organizationName", "x"),), (("commonName", "a"),))}, "a", ""),
        ({"subject": ((("commonName", "a\nb"),),)}, "", ""),
        ({"subject": ((("commonName", "x" * 1025),),)}, "", ""),
        ({"subjectAltName": (("email", "a@b"), ("DNS", "c"))}, "", "a@b"),
    ],
)
def test_the_user_of_a_certificate(certificate: dict[str, object], cn: str, san: str) -> None:
    assert user_of(certificate, "cn") == cn
    assert user_of(certificate, "san") == san
