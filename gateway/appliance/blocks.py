"""Which blocks of an image matter: bmap files, format 2.0 of bmaptool, written for our images and read from any."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

BLOCK_BYTES: Final = 4096
_READ_BYTES: Final = 1 << 20
_UNSUMMED: Final = "0" * 64  # stands in the file while its own checksum is taken
_HASHES: Final = ("sha256", "sha1")


class BmapError(Exception):
    """A block map that cannot be used; one line for people."""


@dataclass(frozen=True)
class Extent:
    """Bytes ``start`` to ``end`` (not included) of the image; ``checksum`` of its content in hex, or empty."""

    start: int
    end: int
    checksum: str = ""


@dataclass(frozen=True)
class Bmap:
    """``extents`` in order, not touching each other, of an image with ``image_bytes``; ``hash`` is of the checksums."""

    image_bytes: int
    extents: list[Extent] = field(default_factory=list)
    hash: str = "sha256"

    @property
    def mapped_bytes(self) -> int:
        return sum(extent.end - extent.start for extent in self.extents)


def beside(image: Path) -> Path | None:
    """The block map that lies beside an image, of the same name without the compression's suffix."""
    names = [image.with_name(image.name + ".bmap"), image.with_suffix(".bmap")]
    if image.suffix in (".zst", ".xz", ".gz"):
        names += [image.with_suffix("").with_name(image.stem + ".bmap"), image.with_suffix("").with_suffix(".bmap")]
    return next((name for name in names if name.is_file()), None)


def read_bmap(path: Path) -> Bmap:
    """A block map of format 1.3 to 2.x. Raises BmapError when it is damaged or something else."""
    try:
        text = path.read_bytes()
        root = ElementTree.fromstring(text)
    except OSError as error:
        raise BmapError(f"{path}: {error.strerror}") from None
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the latter two: of its encoding
        raise BmapError(f"{path}: no block map (bmaptool's XML): {error}") from None
    version = root.get("version", "")
    if root.tag != "bmap" or version.partition(".")[0] not in ("1", "2"):
        raise BmapError(f'{path}: format version "{version}", expected 1.3 to 2.x of bmaptool')
    try:
        hash_name = (root.findtext("ChecksumType") or "sha1").strip()
        if hash_name not in _HASHES:
            raise BmapError(f'{path}: ChecksumType "{hash_name}", expected one of {", ".join(_HASHES)}')
        own = (root.findtext("BmapFileChecksum") or root.findtext("BmapFileSHA1") or "").strip()
        if own and hashlib.new(hash_name, text.replace(own.encode(), b"0" * len(own))).hexdigest() != own:
            raise BmapError(f"{path}: damaged, its own checksum does not fit")
        return _parsed(root, hash_name)
    except (ValueError, TypeError) as error:
        raise BmapError(f"{path}: no block map that can be used: {error}") from None


def _parsed(root: ElementTree.Element, hash_name: str) -> Bmap:
    """Raises ValueError."""
    image_bytes, block = int(root.findtext("ImageSize") or ""), int(root.findtext("BlockSize") or "")
    extents: list[Extent] = []
    end = 0
    for element in root.iter("Range"):
        text = (element.text or "").strip()
        if not re.fullmatch(r"\d+(-\d+)?", text):
            raise ValueError(f'Range "{text}", expected FIRST-LAST')
        first, _, last = text.partition("-")
        start = int(first) * block
        if start < end or int(last or first) < int(first) or start >= image_bytes:
            raise ValueError(f'Range "{text}" out of order or outside of the image')
        end = min((int(last or first) + 1) * block, image_bytes)
        extents.append(Extent(start, end, element.get("chksum") or element.get("sha1") or ""))
    if not 0 < image_bytes < 1 << 63 or block <= 0:
        raise ValueError("ImageSize and BlockSize must be above 0, and of 63 bits at most")
    if not extents:
        raise ValueError("no Range in it")
    return Bmap(image_bytes, extents, hash_name)


def write_bmap(image: Path, bmap: Path, spare: Sequence[tuple[int, int]] = ()) -> Bmap:
    """Write the block map of an uncompressed image. Raises OSError.

    ``spare``: (offset, bytes) of areas where what a card had before does no harm, such as the rest of a root slot. Only
    there blocks full of zeros are left out: elsewhere zeros count, as in the inode tables of a new file system.
    The same image gives the same map, whichever file system it lies on.
    """
    size = image.stat().st_size
    found = Bmap(size, [Extent(start, end, _checksum(image, start, end)) for start, end in _mapped(image, size, spare)])
    text = _text(found, _UNSUMMED)
    bmap.write_text(_text(found, hashlib.sha256(text.encode()).hexdigest()))
    return found


def _mapped(image: Path, size: int, spare: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """(start, end) of what must be written, whole blocks but for the last."""
    inside = [(-(-offset // BLOCK_BYTES), (offset + count) // BLOCK_BYTES) for offset, count in sorted(spare)]
    start: int | None = None
    zeros = bytes(BLOCK_BYTES)
    with image.open("rb") as source:
        number = 0
        while chunk := source.read(_READ_BYTES):
            for at in range(0, len(chunk), BLOCK_BYTES):
                is_left_out = chunk[at : at + BLOCK_BYTES] == zeros and any(a <= number < b for a, b in inside)
                if is_left_out and start is not None:
                    yield start, number * BLOCK_BYTES
                    start = None
                elif not is_left_out and start is None:
                    start = number * BLOCK_BYTES
                number += 1
    if start is not None:
        yield start, size


def _checksum(image: Path, start: int, end: int) -> str:
    total = hashlib.sha256()
    with image.open("rb") as source:
        source.seek(start)
        while start < end:
            chunk = source.read(min(_READ_BYTES, end - start))
            total.update(chunk)
            start += len(chunk)
    return total.hexdigest()


def _text(bmap: Bmap, own: str) -> str:
    blocks = -(-bmap.image_bytes // BLOCK_BYTES)
    mapped = sum(-(-extent.end // BLOCK_BYTES) - extent.start // BLOCK_BYTES for extent in bmap.extents)
    ranges = "\n".join(
        f'        <Range chksum="{extent.checksum}">'
        f" {extent.start // BLOCK_BYTES}-{-(-extent.end // BLOCK_BYTES) - 1} </Range>"
        for extent in bmap.extents
    )
    return f"""<?xml version="1.0" ?>
<bmap version="2.0">
    <ImageSize> {bmap.image_bytes} </ImageSize>
    <BlockSize> {BLOCK_BYTES} </BlockSize>
    <BlocksCount> {blocks} </BlocksCount>
    <MappedBlocksCount> {mapped} </MappedBlocksCount>
    <ChecksumType> sha256 </ChecksumType>
    <BmapFileChecksum> {own} </BmapFileChecksum>
    <BlockMap>
{ranges}
    </BlockMap>
</bmap>
"""
