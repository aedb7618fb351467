"""A certificate authority of the plant's own: one folder that holds its key, what it has issued and what it revoked.

What makes certificates (``cryptography``) is large and not everywhere: it is imported when one is made.
"""

import datetime
import ipaddress
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from gateway.replacing import locked, replace

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

DAYS: Final = 825  # of a certificate, when nothing else is asked for
AUTHORITY_DAYS: Final = 7305
PUBLIC: Final = 0o644
SECRET: Final = 0o600
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")  # names files and is a common name
_CLOCK_MIN_MS: Final = 1_767_225_600_000  # 2026: a clock that shows less was never set
_SKEW: Final = datetime.timedelta(days=1)  # clocks of devices may be behind


class CertificateError(Exception):
    """One line: what cannot be issued, renewed or revoked, and why."""


class Issued(NamedTuple):
    """One certificate, as the index has it. Times are seconds of UTC."""

    serial: str
    name: str
    server: bool
    hosts: tuple[str, ...]
    issued: int
    expires: int
    revoked: int  # 0 = it is not


@final
class Authority:
    """``now_ms`` is UTC."""

    def __init__(self, folder: Path, now_ms: int) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self.revocations = folder / "ca.crl"
        self._key = folder / "ca.key"
        self._index = folder / "index.json"
        if now_ms < _CLOCK_MIN_MS:
            raise CertificateError("the clock of this machine was never set: certificates would not be valid")
        self._now = datetime.datetime.fromtimestamp(now_ms // 1000, datetime.UTC)

    def create(self, name: str, days: int = AUTHORITY_DAYS) -> None:
        """A new key and certificate of the authority itself. Raises CertificateError where there is one."""
        x509, ec = _cryptography()
        with self._changing():
            if self._key.exists() or self.certificate.exists():
                raise CertificateError(f"{self.folder}: holds an authority already")
            key = ec.generate_private_key(ec.SECP256R1())
            subject = _subject(name)
            end = self._now + datetime.timedelta(days=days)
            made = self._builder(subject, subject, key.public_key(), key.public_key(), end)
            made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            made = made.add_extension(_usage(x509, key_cert_sign=True, crl_sign=True), critical=True)
            self._write(self._key, _private(key), SECRET)
            self._write(self.certificate, _public(_sign(made, key)), PUBLIC)
            self._save([])
            self._revoke([])

    def issue(
        self, name: str, *, server: bool = False, hosts: Sequence[str] = (), days: int = DAYS
    ) -> tuple[Path, Path]:
        """A new key and certificate; the files of both. Raises CertificateError where the name has a valid one."""
        with self._changing():
            if any(one.name == name and self._is_valid(one) for one in self.issued()):
                raise CertificateError(f"{name}: has a valid certificate; renew or revoke it")
            return self._issue(name, server, tuple(hosts), days)

    def renew(self, name: str, days: int = DAYS) -> tuple[Path, Path]:
        """A new key and certificate like the last one of this name, which stays valid until its end."""
        with self._changing():
            last = [one for one in self.issued() if one.name == name]
            if not last:
                raise CertificateError(f"{name}: was never issued a certificate")
            return self._issue(name, last[-1].server, last[-1].hosts, days)

    def revoke(self, name: str) -> int:
        """All valid certificates of this name; how many. Raises CertificateError when there is none."""
        with self._changing():
            rows = self.issued()
            stamp = int(self._now.timestamp())
            made = [one._replace(revoked=stamp) if one.name == name and self._is_valid(one) else one for one in rows]
            count = sum(one != before for one, before in zip(made, rows, strict=True))
            if not count:
                raise CertificateError(f"{name}: has no valid certificate")
            self._save(made)
            self._revoke(made)
        return count

    def issued(self) -> list[Issued]:
        """All that were ever issued, in that order."""
        try:
            rows = json.loads(self._index.read_bytes())
            return [Issued(**{**row, "hosts": tuple(row["hosts"])}) for row in rows]
        except FileNotFoundError:
            raise CertificateError(f"{self.folder}: holds no authority (forebay cert init)") from None
        except OSError as error:
            raise CertificateError(f"{self._index}: cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise CertificateError(f"{self._index}: is damaged: {error}") from None

    def _is_valid(self, one: Issued) -> bool:
        return not one.revoked and one.expires > self._now.timestamp()

    def _issue(self, name: str, server: bool, hosts: tuple[str, ...], days: int) -> tuple[Path, Path]:
        if not _NAME.fullmatch(name):
            raise CertificateError(f"{name!r}: expected a name of 1 to 64 letters, digits and . _ @ -")
        x509, ec = _cryptography()
        from cryptography.x509.oid import ExtendedKeyUsageOID

        own, certificate = self._load(x509)
        end = min(self._now + datetime.timedelta(days=days), certificate.not_valid_after_utc)
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._builder(certificate.subject, _subject(name), own.public_key(), key.public_key(), end)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(_usage(x509, digital_signature=True), critical=True)
        use = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        made = made.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        names = [_alternative(x509, host) for host in (hosts or (name,))]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = _sign(made, own)
        folder = self.folder / "issued"
        folder.mkdir(exist_ok=True)
        files = folder / f"{name}.crt", folder / f"{name}.key"
        row = Issued(
            f"{signed.serial_number:x}", name, server, hosts, int(self._now.timestamp()), int(end.timestamp()), 0
        )
        self._save([*self.issued(), row])
        self._write(files[1], _private(key), SECRET)
        self._write(files[0], _public(signed), PUBLIC)
        return files

    def _load(self, x509: Any) -> "tuple[ec.EllipticCurvePrivateKey, x509.Certificate]":
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key: Any = load_pem_private_key(self._key.read_bytes(), None)
            return key, x509.load_pem_x509_certificate(self.certificate.read_bytes())
        except FileNotFoundError:
            raise CertificateError(f"{self.folder}: holds no authority (forebay cert init)") from None
        except OSError as error:
            raise CertificateError(f"{self._key}: cannot be read: {error.strerror}") from None
        except (ValueError, TypeError) as error:
            raise CertificateError(f"{self._key} or {self.certificate}: cannot be used: {error}") from None

    def _builder(self, issuer: Any, subject: Any, signer: Any, public_key: Any, end: datetime.datetime) -> Any:
        x509, _ = _cryptography()
        made = x509.CertificateBuilder().issuer_name(issuer).subject_name(subject).public_key(public_key)
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(self._now - _SKEW).not_valid_after(end)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        return made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)

    def _revoke(self, rows: Sequence[Issued]) -> None:
        """Write the list of what is revoked. It is good for as long as the authority: nobody fetches a newer one."""
        x509, _ = _cryptography()
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.serialization import Encoding

        key, certificate = self._load(x509)
        made = x509.CertificateRevocationListBuilder().issuer_name(certificate.subject)
        made = made.last_update(self._now - _SKEW).next_update(certificate.not_valid_after_utc)
        # beside the list of another authority of the same name it would be taken for that one's
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(certificate.public_key())
        made = made.add_extension(signer, critical=False)
        for one in rows:
            if one.revoked:
                gone = x509.RevokedCertificateBuilder().serial_number(int(one.serial, 16))
                gone = gone.revocation_date(datetime.datetime.fromtimestamp(one.revoked, datetime.UTC))
                made = made.add_revoked_certificate(gone.build())
        self._write(self.revocations, made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), PUBLIC)

    def _save(self, rows: Sequence[Issued]) -> None:
        self._write(self._index, json.dumps([one._asdict() for one in rows], indent=1).encode() + b"\n", SECRET)

    def _write(self, path: Path, data: bytes, mode: int) -> None:
        replace(path, data, mode)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            with locked(self._index):
                yield
        except OSError as error:
            raise CertificateError(f"{self.folder}: cannot be written: {error.strerror}") from None


def _cryptography() -> tuple[Any, Any]:
    """The modules x509 and ec. Raises CertificateError where the package is missing."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise CertificateError('the package cryptography is missing: pip install "forebay[cert]"') from None
    return x509, ec


def _subject(name: str) -> Any:
    x509, _ = _cryptography()
    try:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    except ValueError:
        raise CertificateError(f"{name!r}: expected a name of 1 to 64 characters") from None


def _usage(x509: Any, **uses: bool) -> Any:
    every = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: uses.get(name, False) for name in every})


def _alternative(x509: Any, host: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.RFC822Name(host) if "@" in host else x509.DNSName(host)
    except ValueError:
        raise CertificateError(f"{host!r}: expected a host name or an address") from None


def _sign(made: Any, key: Any) -> Any:
    from cryptography.hazmat.primitives import hashes

    return made.sign(key, hashes.SHA256())


def _public(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    data: bytes = certificate.public_bytes(Encoding.PEM)
    return data


def _private(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return data
