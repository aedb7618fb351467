import hashlib
from pathlib import Path

import pytest

from gateway.appliance.blocks import BLOCK_BYTES, BmapError, Extent, beside, read_bmap, write_bmap

# as bmaptool 3.6 writes it, for blocks 0 and 2-3 of a file with 4 blocks and 100 bytes
FOREIGN = """<?xml version="1.0" ?>
<!-- This file contains the block map for an image file -->
<bmap version="2.0">
    <!-- Image size in bytes: 16.1 KiB -->
    <ImageSize> 16484 </ImageSize>
    <BlockSize> 4096 </BlockSize>
    <BlocksCount> 5 </BlocksCount>
    <MappedBlocksCount> 3     </MappedBlocksCount>
    <ChecksumType> sha256 </ChecksumType>
    <BmapFileChecksum> OWN </BmapFileChecksum>
    <BlockMap>
        <Range chksum="aa"> 0 </Range>
        <Range chksum="bb"> 2-4 </Range>
    </BlockMap>
</bmap>
"""


def foreign(text: str = FOREIGN) -> str:
    own = hashlib.sha256(text.replace("OWN", "0" * 64).encode()).hexdigest()
    return text.replace("OWN", own)


def image(path: Path, blocks: str, tail: bytes = b"") -> Path:
    """One letter a block: x has data, 0 is zeros."""
    path.write_bytes(
        b"".join(bytes(BLOCK_BYTES) if one == "0" else one.encode() * BLOCK_BYTES for one in blocks) + tail
    )
    return path


def test_zeros_are_left_out_only_where_the_old_content_does_no_harm(tmp_path: Path) -> None:
    file = image(tmp_path / "image", "x00x0000x0", b"end")
    whole = write_bmap(file, tmp_path / "whole")
    assert whole.extents == [Extent(0, 10 * BLOCK_BYTES + 3, hashlib.sha256(file.read_bytes()).hexdigest())]
    # from the middle of block 3 to the middle of block 7: blocks 4 to 6 lie inside
    some = write_bmap(file, tmp_path / "some", [(3 * BLOCK_BYTES + 5, 4 * BLOCK_BYTES)])
    assert [(one.start // BLOCK_BYTES, one.end) for one in some.extents] == [
        (0, 4 * BLOCK_BYTES),
        (7, 10 * BLOCK_BYTES + 3),
    ]
    assert some.mapped_bytes == 7 * BLOCK_BYTES + 3


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    file = image(tmp_path / "image", "x0000x", b"tail")
    made = write_bmap(file, tmp_path / "image.bmap", [(BLOCK_BYTES, 4 * BLOCK_BYTES)])
    assert read_bmap(tmp_path / "image.bmap") == made
    assert len(made.extents) == 2
    text = (tmp_path / "image.bmap").read_text()
    assert "<MappedBlocksCount> 3 </MappedBlocksCount>" in text
    write_bmap(file, tmp_path / "again", [(BLOCK_BYTES, 4 * BLOCK_BYTES)])
    assert (tmp_path / "again").read_text() == text


def test_a_map_that_bmaptool_wrote(tmp_path: Path) -> None:
    file = tmp_path / "map"
    file.write_text(foreign())
    found = read_bmap(file)
    assert found.extents == [Extent(0, 4096, "aa"), Extent(8192, 16484, "bb")]
    assert (found.image_bytes, found.hash) == (16484, "sha256")
    old = FOREIGN.replace("2.0", "1.3").replace("chksum", "sha1")
    for element in ("ChecksumType", "BmapFileChecksum"):
        old = "\n".join(line for line in old.splitlines() if element not in line)
    file.write_text(old)
    assert read_bmap(file).hash == "sha1"
    assert read_bmap(file).extents[1].checksum == "bb"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no xml", "no block map"),
        (foreign().replace("16484", "16485"), "its own checksum"),
        (foreign(FOREIGN.replace('version="2.0"', 'version="3.0"')), '"3.0"'),
        (foreign(FOREIGN.replace("sha256", "crc32")), '"crc32"'),
        (foreign(FOREIGN.replace("2-4", "4-2")), '"4-2"'),
        (foreign(FOREIGN.replace("2-4", "0-4")), '"0-4"'),
        (foreign(FOREIGN.replace("2-4", "9")), '"9"'),
        (foreign(FOREIGN.replace("> 4096 <", "> x <")), "can be used"),
        ('<?xml version="1.0" encoding="utf-32"?><bmap version="2.0"/>', "no block map"),
        ('<?xml version="1.0" encoding="nonsense"?><bmap version="2.0"/>', "no block map"),
        (FOREIGN.replace("16484", "9" * 30).replace("BmapFileChecksum", "X"), "ImageSize"),
        ('<bmap version="2.0"><ImageSize>1</ImageSize><BlockSize>1</BlockSize></bmap>', "no Range"),
    ],
)
def test_a_damaged_map_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "map"
    file.write_text(text)
    with pytest.raises(BmapError) as refused:
        read_bmap(file)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_map_beside_an_image(tmp_path: Path) -> None:
    assert beside(tmp_path / "a.img.zst") is None
    (tmp_path / "a.img.bmap").touch()
    assert beside(tmp_path / "a.img.zst") == tmp_path / "a.img.bmap"
    assert beside(tmp_path / "a.img") == tmp_path / "a.img.bmap"
    (tmp_path / "b.bmap").touch()
    assert beside(tmp_path / "b.img.xz") == tmp_path / "b.bmap"
