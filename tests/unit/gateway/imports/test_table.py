"""Finding a setting by key, by variable and by group."""

from gateway.imports.readings import Flag
from gateway.imports.table import Mapped, Origin, Unmapped

_A = Mapped("a.b", "ours", Flag(), env="A_B")
_ALSO = Mapped("a.b", "ours.too", Flag())
_GROUP = Unmapped("a.*", "why", "A_*")
_INNER = Unmapped("a.c.*", "why else")


def test_the_exact_name_goes_before_its_group_and_the_longest_group_first() -> None:
    origin = Origin("Other", [_GROUP, _INNER, _A, _ALSO])
    assert origin.find("a.b") == [_A, _ALSO]
    assert origin.find("A_B") == [_A]
    assert origin.find("a.c.d") == [_INNER]
    assert origin.find("a.d") == [_GROUP]
    assert origin.find("A_OTHER") == [_GROUP]
    assert origin.find("b") == []
    assert origin.find("") == []
