"""Flattened device trees: read, written for tests, and what of the kernel a device on one of them waits for."""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

MAGIC: Final = 0xD00DFEED
_BEGIN, _END, _PROPERTY, _NOP, _LAST = 1, 2, 3, 4, 9
_CELLS: Final = {  # property with references -> property of what is referred to: words behind each
    "clocks": "#clock-cells",
    "dmas": "#dma-cells",
    "mboxes": "#mbox-cells",
    "phys": "#phy-cells",
    "power-domains": "#power-domain-cells",
    "resets": "#reset-cells",
}


@final
class Node:
    """``values``: its properties as bytes."""

    def __init__(self, name: str, up: "Node | None" = None) -> None:
        self.name = name
        self.up = up
        self.values: dict[str, bytes] = {}
        self.below: list[Node] = []
        if up is not None:
            up.below.append(self)

    @property
    def compatible(self) -> list[str]:
        """What it is, the nearest description first."""
        return [name for name in self.values.get("compatible", b"").decode().split("\0") if name]

    @property
    def is_used(self) -> bool:
        return self.values.get("status", b"okay\0").rstrip(b"\0") in (b"okay", b"ok")

    def all(self) -> Iterator["Node"]:
        """It and those below it."""
        yield self
        for node in self.below:
            yield from node.all()


def read(data: bytes) -> Node:
    """The root. Raises ValueError where it is no device tree, or not whole."""
    if len(data) < 40 or struct.unpack_from(">2I", data) != (MAGIC, len(data)):
        raise ValueError("no device tree, or not whole")
    at, texts = struct.unpack_from(">2I", data, 8)
    root = node = Node("")
    while True:
        (kind,) = struct.unpack_from(">I", data, at)
        at += 4
        if kind == _BEGIN:
            end = data.index(0, at)
            name = data[at:end].decode()
            node = Node(name, node) if name else root
            at = (end + 4) & ~3
        elif kind == _END:
            node = node.up or root
        elif kind == _PROPERTY:
            size, offset = struct.unpack_from(">2I", data, at)
            name = data[texts + offset : data.index(0, texts + offset)].decode()
            node.values[name] = data[at + 8 : at + 8 + size]
            at = (at + 8 + size + 3) & ~3
        elif kind == _LAST:
            return root
        elif kind != _NOP:
            raise ValueError(f"no device tree: a word {kind}")


def write(root: Node) -> bytes:
    """As ``read`` takes it."""
    names = bytearray()
    body = bytearray()
    _write(root, body, names)
    body += struct.pack(">I", _LAST)
    start = 40 + 16  # after an empty list of reserved memory
    size = start + len(body) + len(names)
    head = struct.pack(">10I", MAGIC, size, start, start + len(body), 40, 17, 16, 0, len(names), len(body))
    return head + bytes(16) + bytes(body) + bytes(names)


def _write(node: Node, body: bytearray, names: bytearray) -> None:
    name = node.name.encode() + b"\0"
    body += struct.pack(">I", _BEGIN) + name + bytes(-len(name) % 4)
    for key, value in node.values.items():
        body += struct.pack(">3I", _PROPERTY, len(value), len(names)) + value + bytes(-len(value) % 4)
        names += key.encode() + b"\0"
    for below in node.below:
        _write(below, body, names)
    body += struct.pack(">I", _END)


def waits_for(root: Node, device: Node) -> list[Node]:
    """What must have a driver before the device has: what it refers to, and what all those are part of."""
    by_handle = {node.values["phandle"]: node for node in root.all() if "phandle" in node.values}
    found: list[Node] = []
    todo = [device]
    while todo:
        node = todo.pop()
        if node in found or not node.compatible or node is root:
            continue
        found.append(node)
        todo += _referred(node, by_handle)
        if node.up is not None:
            todo.append(node.up)
    return found


def _referred(node: Node, by_handle: Mapping[bytes, Node]) -> Iterator[Node]:
    for key, value in node.values.items():
        words = [value[at : at + 4] for at in range(0, len(value), 4)]
        if key.endswith("-supply") or key == "mmc-pwrseq":
            yield from (by_handle[word] for word in words if word in by_handle)
            continue
        is_pin = key.endswith(("gpio", "gpios"))
        if not is_pin and key not in _CELLS:
            continue
        at = 0
        while at < len(words) and words[at] in by_handle:
            other = by_handle[words[at]]
            yield other
            (cells,) = struct.unpack(">I", other.values.get("#gpio-cells" if is_pin else _CELLS[key], bytes(4)))
            at += 1 + cells


def drivers(compatible: Sequence[str], aliases: str) -> set[str]:
    """The modules that say in ``modules.alias`` that they drive such a device; of what is built in there is no word."""
    found = set()
    for line in aliases.splitlines():
        match = re.fullmatch(r"alias of:N\*T\*C(\S+?)(?:C\*)? (\S+)", line)
        if match is not None and match[1] in compatible:
            found.add(match[2])
    return found
