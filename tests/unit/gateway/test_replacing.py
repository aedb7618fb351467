import os
import stat
import threading
from pathlib import Path

import pytest

from gateway.replacing import locked, replace


def test_a_file_is_replaced_as_a_whole_and_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with locked(path):
        replace(path, b"one")
        replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["file"]


def test_what_a_writer_left_behind_lends_its_mode_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / "file.new").write_bytes(b"half")
    (tmp_path / "file.new").chmod(0o666)
    replace(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_writers_go_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_bytes(b"0")

    def add() -> None:
        for _ in range(20):
            with locked(path):
                replace(path, str(int(path.read_bytes()) + 1).encode())

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() == b"80"


def test_a_folder_that_is_none_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(OSError, match=r"Not a directory|File exists"), locked(tmp_path / "plain" / "file"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_makes_in_the_folder_of_another_is_theirs(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, 5883, 5884)
    file = folder / "new" / "file"
    with locked(file):
        replace(file, b"1")
    assert [(path.stat().st_uid, path.stat().st_gid) for path in (file.parent, file)] == [(5883, 5884)] * 2
    os.chown(file, 7, 8)
    replace(file, b"2")
    assert (file.stat().st_uid, file.stat().st_gid) == (7, 8), "an old file keeps its owner"
