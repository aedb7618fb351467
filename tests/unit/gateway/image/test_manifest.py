from pathlib import Path

import pytest

from gateway.image.manifest import describe, stem, verify
from gateway.image.plan import BuildError, read_plan
from gateway.image.signing import Signing, open_signing, sign

IMAGES = Path(__file__).parents[4] / "images"


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, Signing]:
    image, bmap, disk = tmp_path / "f-1-rpi.img.zst", tmp_path / "f-1-rpi.img.bmap", tmp_path / "f-1-rpi.img"
    image.write_bytes(b"packed")
    bmap.write_bytes(b"map")
    disk.write_bytes(b"unpacked")
    signing = open_signing(tmp_path / "signing")
    text = describe(read_plan(IMAGES, "rpi"), "1", 7, disk, [image, bmap])
    (tmp_path / "f-1-rpi.manifest.json").write_text(text)
    sign(signing, tmp_path / "f-1-rpi.manifest.json", tmp_path / "f-1-rpi.manifest.sig")
    return image, signing


def test_what_was_built_is_verified_packed_and_unpacked(built: tuple[Path, Signing]) -> None:
    image, signing = built
    assert verify(image, signing.authority)["board"] == "rpi"
    assert verify(image.with_suffix(""), signing.authority)["compatible"] == "forebay-rpi"
    (image.parent / "f-1-rpi.img.bmap").unlink()  # what is not there harms nothing
    verify(image, signing.authority)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("f-1-rpi.img.zst", b"packeD", "not what was signed"),
        ("f-1-rpi.img.zst", b"packe", "5 bytes: expected 6"),
        ("f-1-rpi.img.bmap", b"mAp", "f-1-rpi.img.bmap: not what was signed"),
        ("f-1-rpi.manifest.json", b"{}", "its signature does not fit"),
        ("f-1-rpi.manifest.sig", b"", "its signature does not fit"),
    ],
)
def test_a_flipped_byte_is_found(built: tuple[Path, Signing], name: str, data: bytes, said: str) -> None:
    image, signing = built
    (image.parent / name).write_bytes(data)
    with pytest.raises(BuildError) as error:
        verify(image, signing.authority)
    assert said in str(error.value)


def test_a_manifest_of_something_else(built: tuple[Path, Signing]) -> None:
    image, signing = built
    manifest = image.parent / "f-1-rpi.manifest.json"
    manifest.write_text('{"files": 7}')
    sign(signing, manifest, image.parent / "f-1-rpi.manifest.sig")
    with pytest.raises(BuildError, match="not the manifest of an image"):
        verify(image, signing.authority)


def test_names() -> None:
    assert stem(Path("/x/f-1-rpi.img.zst")) == stem(Path("/x/f-1-rpi.img")) == Path("/x/f-1-rpi")
    with pytest.raises(BuildError, match=r"expected a file that ends in \.img\.zst or \.img"):
        stem(Path("x.iso"))
