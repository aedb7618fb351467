"""TLS: contexts from certificate files, and who a client's certificate says that it is."""

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

HANDSHAKE_TIMEOUT_S = 10.0
NAME_CHARS_MAX: Final = 1024


class TlsError(Exception):
    """A certificate, key or list cannot be used; the text is one line that names the file."""


VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

Stamp = tuple[tuple[int, int, int] | None, ...]


class Files(NamedTuple):
    """The PEM files of the TLS listeners."""

    cert: Path
    key: Path
    client_ca: Path | None = None
    crl: Path | None = None
    min_version: str = "1.2"

    def stamp(self) -> Stamp:
        """Another one when a file was changed or replaced."""
        found: list[tuple[int, int, int] | None] = []
        for path in (self.cert, self.key, self.client_ca, self.crl):
            try:
                status = None if path is None else path.stat()
            except OSError:
                status = None
            found.append(None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    def context(self, required: bool = False) -> ssl.SSLContext:
        """A context of these; with ``required`` for clients with a certificate only. Raises TlsError."""
        context = server_context(self.cert, self.key, self.min_version)
        if self.client_ca is not None:
            _load(context, self.client_ca, "certificates")
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
            if self.crl is not None:
                _load(context, self.crl, "revocation lists")
                if not context.cert_store_stats()["crl"]:
                    raise TlsError(f"TLS revocation lists {self.crl}: there is none in it")
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        return context


def server_context(cert_file: Path, key_file: Path, min_version: str = "1.2") -> ssl.SSLContext:
    """A context for TLS of ``min_version`` ("1.2" or "1.3") and newer with the chain and key of these PEM files.

    Connections that a context has made stay as they are when the next ones
    use another: a new certificate is a new context. Raises TlsError.
    """
    for path in (cert_file, key_file):
        try:
            path.open("rb").close()
        except OSError as e:
            raise TlsError(f"TLS file {path}: {e.strerror}") from e
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        # without a password callback OpenSSL would ask for an encrypted key's password on the terminal
        context.load_cert_chain(cert_file, key_file, password=_no_password)
    except (ssl.SSLError, ValueError) as e:
        raise TlsError(f"TLS certificate {cert_file} with key {key_file}: {_reason(e)}") from e
    return context


def user_of(certificate: object, source: str) -> str:
    """The user that a client's certificate names, by ``cn`` or ``san``; "" when there is no such name in it."""
    names = cast("dict[str, Any]", certificate)
    found = ""
    if source == "san":
        alternatives = names.get("subjectAltName", ())
        found = str(alternatives[0][1]) if alternatives else ""
    else:
        for part in names.get("subject", ()):
            for name, value in part:
                if name == "commonName":
                    found = str(value)
    return found if found.isprintable() and len(found) <= NAME_CHARS_MAX else ""


def _load(context: ssl.SSLContext, path: Path, what: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as e:
        raise TlsError(f"TLS {what} {path}: {_reason(e)}") from e
    except OSError as e:
        raise TlsError(f"TLS file {path}: {e.strerror}") from e


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a password")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(getattr(error, "strerror", None) or error)


def client_context(
    ca: Path | None, cert: Path | None, key: Path | None, *, insecure: bool = False, alpn: Sequence[str] = ()
) -> ssl.SSLContext:
    """A context for the side that dials; ``ca`` None trusts what the system trusts. Raises TlsError."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as e:
        raise TlsError(f"TLS CA {ca}: {_reason(e)}") from e
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if cert is not None:
        try:
            context.load_cert_chain(cert, key, password=_no_password)
        except (OSError, ValueError) as e:  # ssl.SSLError is an OSError
            raise TlsError(f"TLS certificate {cert} with key {key}: {_reason(e)}") from e
    return context
