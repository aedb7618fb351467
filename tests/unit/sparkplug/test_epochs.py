from sparkplug.epochs import EPOCHS_MAX, Epochs
from tests.sparkplug_rig import metric


def epochs(*births: tuple[int, str, bool]) -> Epochs:
    """Births of the node: time, the only metric (alias 1), in force or not."""
    found = Epochs()
    for at, name, current in births:
        found.add(None, at, "t", f"{at}{name}".encode(), [metric(name, 1)], current=current)
    return found


def name_at(found: Epochs, at: int | None) -> str | None:
    source = found.then(None, at)
    return None if source is None else source.by_alias[1].name


def test_an_alias_means_what_the_birth_of_its_time_said() -> None:
    found = epochs((10, "a", True), (20, "b", True))
    assert [name_at(found, at) for at in (9, 10, 19, 20, 99, None)] == [None, "a", "a", "b", "b", "b"]
    assert found.then("d", None) is None


def test_a_birth_of_another_time_is_not_in_force() -> None:
    found = epochs((20, "b", True), (10, "a", False), (30, "c", False))
    assert [name_at(found, at) for at in (15, 35, None)] == ["a", "c", "b"]
    assert name_at(epochs((10, "a", False)), None) == "a"


def test_the_same_birth_again_is_kept_once_and_few_are_kept() -> None:
    found = epochs((10, "a", True), (10, "a", True), *((20 + n, "b", False) for n in range(EPOCHS_MAX + 2)))
    assert len(list(found)) == EPOCHS_MAX
    assert [birth.at for birth in found][-1] == 10
    current = found.current(None)
    assert current is not None
    assert current.at == 10
