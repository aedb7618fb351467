"""Who built an image: a folder with an authority and a signer, and signatures that ``openssl cms`` makes and checks.

Updates are signed by the same signer. The private keys stay on the build machine.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from gateway.image.plan import BuildError
from gateway.image.running import environment, run

_DAYS: Final = "7305"


@final
@dataclass(frozen=True, slots=True)
class Signing:
    """The files of the folder."""

    folder: Path

    @property
    def authority(self) -> Path:
        """What devices and people check against."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        return self.folder / "signer.crt"

    @property
    def key(self) -> Path:
        return self.folder / "signer.key"


def open_signing(folder: Path) -> Signing:
    """The signing folder, made with new keys when it is not there. Raises BuildError."""
    signing = Signing(folder)
    files = (signing.authority, signing.certificate, signing.key)
    if all(path.is_file() for path in files):
        return signing
    if folder.exists() and any(folder.iterdir()):
        missing = next(path for path in files if not path.is_file())
        raise BuildError(f"{missing}: not there: expected ca.crt, signer.crt and signer.key, or an empty folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    env = environment(0)
    old = os.umask(0o077)
    try:
        _make(signing, env)
    finally:
        os.umask(old)
    return signing


def _make(signing: Signing, env: dict[str, str]) -> None:
    folder = signing.folder
    request, extensions = folder / "signer.csr", folder / "signer.ext"
    curve: list[str | Path] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command: list[str | Path] = ["openssl", "req", "-x509", *curve, "-days", _DAYS]
    command += ["-subj", "/CN=Forebay images authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    run([*command, "-keyout", folder / "ca.key", "-out", signing.authority], env)
    command = ["openssl", "req", *curve, "-subj", "/CN=Forebay images signer"]
    run([*command, "-keyout", signing.key, "-out", request], env)
    extensions.write_text("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n")
    command = ["openssl", "x509", "-req", "-in", request, "-days", _DAYS, "-CAcreateserial", "-extfile", extensions]
    command += ["-CA", signing.authority, "-CAkey", folder / "ca.key"]
    run([*command, "-out", signing.certificate], env)
    for name in ("signer.csr", "signer.ext", "ca.srl"):
        (folder / name).unlink(missing_ok=True)


def sign(signing: Signing, data: Path, signature: Path) -> None:
    """A detached signature beside the file. Raises BuildError."""
    command: list[str | Path] = ["openssl", "cms", "-sign", "-binary", "-md", "sha256", "-outform", "PEM", "-in", data]
    run([*command, "-signer", signing.certificate, "-inkey", signing.key, "-out", signature], environment(0))


def check(data: Path, signature: Path, authority: Path) -> None:
    """Raises BuildError unless a signer of this authority signed exactly this file."""
    for path in (data, signature, authority):
        if not path.is_file():
            raise BuildError(f"{path}: not there: expected the file that was built with the image")
    command: list[str | Path] = [
        "openssl",
        "cms",
        "-verify",
        "-binary",
        "-inform",
        "PEM",
        "-in",
        signature,
        "-content",
        data,
    ]
    try:
        # the authority's clock is not that of a gateway which was never online
        run([*command, "-CAfile", authority, "-purpose", "any", "-no_check_time", "-out", os.devnull], environment(0))
    except BuildError:
        raise BuildError(
            f"{data}: its signature does not fit: it was changed, or another authority signed it"
        ) from None
