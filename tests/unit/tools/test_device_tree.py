import struct

import pytest

from tests.image.device_tree import Node, drivers, read, waits_for, write


def a_tree() -> Node:
    """A controller with two clocks, a supply that a pin of a chip switches, and a device beside it."""
    root = Node("")
    root.values["compatible"] = b"vendor,board\0vendor,chip\0"
    bus = Node("bus@0", root)
    bus.values["compatible"] = b"simple-bus\0"
    card = Node("mmc@1", bus)
    card.values |= {"compatible": b"vendor,mmc\0", "clocks": struct.pack(">4I", 1, 7, 7, 2)}
    card.values |= {"vmmc-supply": struct.pack(">I", 3)}
    clock = Node("clock", root)
    clock.values |= {"compatible": b"vendor,clock\0", "phandle": struct.pack(">I", 1)}
    clock.values |= {"#clock-cells": struct.pack(">I", 2)}
    oscillator = Node("oscillator", root)
    oscillator.values |= {"compatible": b"fixed-clock\0", "phandle": struct.pack(">I", 2)}
    oscillator.values |= {"#clock-cells": bytes(4)}
    supply = Node("supply", root)
    supply.values |= {"compatible": b"regulator-gpio\0", "phandle": struct.pack(">I", 3)}
    supply.values |= {"gpios": struct.pack(">3I", 4, 1, 0)}
    chip = Node("chip", root)
    chip.values["compatible"] = b"vendor,firmware\0"
    pins = Node("pins", chip)
    pins.values |= {"compatible": b"vendor,pins\0", "phandle": struct.pack(">I", 4)}
    pins.values |= {"#gpio-cells": struct.pack(">I", 2)}
    other = Node("uart@2", bus)
    other.values |= {"compatible": b"vendor,uart\0", "status": b"disabled\0"}
    return root


def shown(node: Node) -> list[tuple[str, dict[str, bytes]]]:
    return [(one.name, one.values) for one in node.all()]


def test_written_and_read() -> None:
    tree = a_tree()
    found = read(write(tree))
    assert shown(found) == shown(tree)
    assert found.compatible == ["vendor,board", "vendor,chip"]
    assert [node.name for node in found.all() if not node.is_used] == ["uart@2"]


@pytest.mark.parametrize("data", [b"", b"no tree" * 10, write(a_tree())[:-1], bytes(100)])
def test_what_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="no device tree"):
        read(data)


def test_all_that_a_device_waits_for() -> None:
    tree = read(write(a_tree()))
    card = next(node for node in tree.all() if node.name == "mmc@1")
    found = {node.name for node in waits_for(tree, card)}
    assert found == {"mmc@1", "bus@0", "clock", "oscillator", "supply", "pins", "chip"}


def test_drivers_that_are_modules() -> None:
    aliases = "# Aliases\nalias of:N*T*Cvendor,mmcC* sdhci\nalias of:N*T*Cvendor,mmc sdhci\nalias pci:v1 other\n"
    assert drivers(["vendor,mmc-2", "vendor,mmc"], aliases) == {"sdhci"}
    assert drivers(["vendor,m"], aliases) == set()
