import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.appliance.sources import SourceError, download, is_web, newest, on_stick, removable, stick, write_index
from tests.unit.gateway.appliance.test_disks import part, row
from tests.unit.gateway.cli.test_image_flash import lsblk_says

DATA = b"bundle" * 500_000


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        headers = {
            "/cut.raucb": ("Content-Length", str(len(DATA))),
            "/huge.raucb": ("Content-Length", str(1 << 60)),
            "/odd.raucb": ("Content-Length", "many"),
            "/chunks.raucb": ("Transfer-Encoding", "chunked"),
            "/forebay-chunks.json": ("Transfer-Encoding", "chunked"),
            "/away.raucb": ("Location", "file:///etc/hostname"),
            "/around.raucb": ("Location", "/around.raucb"),
        }
        if self.path not in headers:
            super().do_GET()
            return
        self.send_response(302 if headers[self.path][0] == "Location" else 200)
        self.send_header(*headers[self.path])
        self.end_headers()
        self.wfile.write(DATA[:1000])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "www"
    folder.mkdir()
    bundle = folder / "forebay-1.3.0-test.raucb"
    bundle.write_bytes(DATA)
    write_index(bundle, "forebay-test", "1.3.0")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()
        thread.join()


def test_what_a_server_has(server: str, tmp_path: Path) -> None:
    told = newest(server, "forebay-test")
    assert (told["version"], told["bytes"]) == ("1.3.0", len(DATA))
    assert told["bundle"] == f"{server}/forebay-1.3.0-test.raucb"
    steps: list[tuple[int, int]] = []
    download(told["bundle"], tmp_path / "new" / "file", lambda *step: steps.append(step))
    assert (tmp_path / "new" / "file").read_bytes() == DATA
    assert steps[-1] == (len(DATA), len(DATA)) and len(steps) > 1
    assert newest(f"{server}/x.raucb", "forebay-test")["bundle"] == f"{server}/x.raucb"
    assert is_web(server) and not is_web("/media/stick")


def test_what_it_does_not_have(server: str, tmp_path: Path) -> None:
    def refused(url: str) -> str:
        with pytest.raises(SourceError) as error:
            download(url, tmp_path / "file", lambda *_: None)
        assert not list(tmp_path.glob("file*"))
        return str(error.value)

    assert refused(f"{server}/none.raucb").endswith("none.raucb: the server answers 404 File not found")
    assert refused(f"{server}/cut.raucb") == f"{server}/cut.raucb: ended after 1000 of {len(DATA)} bytes"
    assert "Connection refused" in refused("http://127.0.0.1:1/x.raucb")
    assert refused("http://[/x.raucb")
    assert "must stay" in refused(f"{server}/huge.raucb")
    assert "file:///etc/hostname" in refused(f"{server}/away.raucb")
    assert "302" in refused(f"{server}/around.raucb")
    assert refused(f"{server}/chunks.raucb").startswith(f"{server}/chunks.raucb: ")
    assert "control characters" in refused(f"{server}/a b.raucb")
    assert refused("http://../x.raucb").startswith("http://../x.raucb: ")
    download(f"{server}/odd.raucb", tmp_path / "whole", lambda *_: None)
    assert (tmp_path / "whole").read_bytes() == DATA[:1000]
    with pytest.raises(SourceError, match="404"):
        newest(server, "forebay-other")
    for text in (
        json.dumps({"version": 1}), "[" * 60_000, "no JSON", "[]", json.dumps({"version": 1, "bundle": 5}),
        json.dumps({"version": 1, "bundle": "file:///dev/zero"}), json.dumps({"version": 1, "bundle": "http://[/"}),
    ):  # fmt: skip
        (tmp_path / "www" / "forebay-bad.json").write_text(text)
        with pytest.raises(SourceError, match="no index of updates"):
            newest(server, "forebay-bad")
    with pytest.raises(SourceError, match=r"forebay-chunks.json: "):
        newest(server, "forebay-chunks")


def test_where_it_cannot_be_kept(server: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match=f"{tmp_path}/file: (File exists|Not a directory)"):
        download(f"{server}/forebay-1.3.0-test.raucb", tmp_path / "file" / "x", lambda *_: None)


def test_the_highest_version_on_a_stick(tmp_path: Path) -> None:
    assert on_stick(tmp_path, "forebay-test") is None
    (tmp_path / "forebay").mkdir()
    for name in (
        "forebay-1.9.0-test.raucb",
        "forebay/forebay-1.10.0-test.raucb",
        "forebay-2.0.0-other.raucb",
        "x.raucb",
        "forebay-\u00b2-test.raucb",
        f"forebay-{'9' * 50}-test.raucb",
    ):
        (tmp_path / name).touch()
    (tmp_path / "forebay-99-test.raucb").mkdir()
    assert on_stick(tmp_path, "forebay-test") == tmp_path / "forebay/forebay-1.10.0-test.raucb"


def test_only_removable_disks_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    media = tmp_path / "media"
    media.mkdir()
    (media / "forebay-1.3.0-test.raucb").touch()
    lsblk_says(
        monkeypatch, tmp_path,
        row("sda", rm=False, hotplug=False, tran="sata", children=[part("sda1", "sda", mountpoints=[str(media)])]),
        row("sdb", children=[
            part("sdb1", "sdb", mountpoints=[str(tmp_path)]), part("sdb2", "sdb", mountpoints=[str(media)]),
        ]),
    )  # fmt: skip
    assert removable() == [("/dev/sdb1", [str(tmp_path)]), ("/dev/sdb2", [str(media)])]
    with stick("forebay-test") as found:
        assert found == media / "forebay-1.3.0-test.raucb"
    with pytest.raises(SourceError, match="none of /dev/sdb1, /dev/sdb2 has one"), stick("forebay-other"):
        pass


def test_no_stick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lsblk_says(monkeypatch, tmp_path)
    with pytest.raises(SourceError, match="no removable disk is here"), stick("forebay-test"):
        pass
