"""TLS: contexts from certificate files."""

import ssl
from collections.abc import Sequence
from pathlib import Path

HANDSHAKE_TIMEOUT_S = 10.0


class TlsError(Exception):
    """The certificate or key cannot be used; the text is one line that names the file."""


VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


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
