"""Keys and bundles for the tests of updates, made when they run."""

import datetime
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.appliance.bundle import build_field
from gateway.appliance.journal import Version
from tests.machine_root import kernel

needs_rauc = pytest.mark.skipif(shutil.which("rauc") is None, reason="rauc is not installed")


def authority(folder: Path) -> Path:
    """ca.crt, signer.crt and signer.key in the folder."""
    folder.mkdir()
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    signer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "signer")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for name, public, file, is_ca in ((ca, ca_key, "ca.crt", True), (signer, key, "signer.crt", False)):
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(ca)
            .public_key(public.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin.replace(year=2120))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .sign(ca_key, hashes.SHA256())
        )
        (folder / file).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "signer.key").write_bytes(text)
    return folder


def bundle(path: Path, keys: Path, version: Version, compatible: str = "forebay-test", root: bytes = b"root") -> Path:
    """A bundle with that program in it."""
    content = path.with_name(path.name + ".content")
    (content / "boot").mkdir(parents=True)
    (content / "boot" / "vmlinuz").write_bytes(kernel(version.version))
    (content / "boot" / "entry.conf").write_text(
        f"title {version.version}\nversion {version.version}\nsort-key forebay\noptions forebay.slot=@\n"
    )
    (content / "root.squashfs").write_bytes(root + os.urandom(65536))  # less is too little for verity
    (content / "manifest.raucm").write_text(
        f"[update]\ncompatible={compatible}\nversion={version.version}\nbuild={build_field(version)}\n"
        "[bundle]\nformat=verity\n[image.root]\nfilename=root.squashfs\n"
    )
    words: list[str | Path] = ["rauc", f"--cert={keys}/signer.crt", f"--key={keys}/signer.key", "bundle", content, path]
    subprocess.run(words, check=True, capture_output=True)
    shutil.rmtree(content)
    return path
