"""The plant's own authority: what it issues is what ``ssl`` takes, and what it revokes is not."""

import builtins
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from gateway.certificates import Authority, CertificateError
from gateway.net.tls import Files, user_of

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    from gateway.store.clock import read_clocks

    made = Authority(tmp_path / "ca", max(NOW_MS - 400 * DAY_MS, read_clocks().wall_ms))
    made.create("Plant")
    return made


def shown(authority: Authority, server: tuple[Path, Path], client: tuple[Path, Path]) -> dict[str, Any]:
    """The client's certificate after a handshake with the gateway. Raises ssl.SSLError."""
    here = Files(*server, authority.certificate, authority.revocations).context(required=True)
    there = ssl.create_default_context(cafile=str(authority.certificate))
    there.load_cert_chain(*client)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = here.wrap_bio(up, down, server_side=True)
    asking = there.wrap_bio(down, up, server_hostname="gateway.plant")
    for _ in range(4):
        for side in (asking, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    serving.do_handshake()
    certificate: dict[str, Any] = serving.getpeercert() or {}
    return certificate


def test_issue_renew_and_revoke(authority: Authority) -> None:
    server = authority.issue("gateway", server=True, hosts=["gateway.plant", "10.0.0.1"])
    client = authority.issue("plc-1")
    certificate = shown(authority, server, client)
    assert user_of(certificate, "cn") == "plc-1"
    assert user_of(certificate, "san") == "plc-1"
    old = [path.read_bytes() for path in client]
    with pytest.raises(CertificateError, match="has a valid certificate"):
        authority.issue("plc-1")
    assert authority.renew("plc-1") == client
    assert [path.read_bytes() for path in client] != old
    shown(authority, server, client)
    assert authority.revoke("plc-1") == 2
    with pytest.raises(ssl.SSLError):
        shown(authority, server, client)
    shown(authority, server, authority.issue("plc-1"))
    shown(authority, authority.renew("gateway"), client)
    names = [(one.name, one.server, one.hosts, bool(one.revoked)) for one in authority.issued()]
    assert names == [
        ("gateway", True, ("gateway.plant", "10.0.0.1"), False),
        ("plc-1", False, (), True),
        ("plc-1", False, (), True),
        ("plc-1", False, (), False),
        ("gateway", True, ("gateway.plant", "10.0.0.1"), False),
    ]


def test_a_client_is_no_server_and_a_server_no_client(authority: Authority) -> None:
    server = authority.issue("gateway", server=True, hosts=["gateway.plant"])
    client = authority.issue("plc-1", hosts=["gateway.plant"])
    for one, other in ((client, client), (server, server)):
        with pytest.raises(ssl.SSLError):
            shown(authority, one, other)


def test_keys_are_their_owners_alone(authority: Authority) -> None:
    files = [authority.folder / "ca.key", authority.issue("plc-1")[1], authority.folder / "index.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(authority.certificate.stat().st_mode) == 0o644


def test_no_certificate_outlives_the_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", NOW_MS)
    authority.create("Plant", days=10)
    authority.issue("plc-1", days=1000)
    assert authority.issued()[0].expires == NOW_MS // 1000 + 10 * 86_400
    later = Authority(tmp_path / "ca", NOW_MS + 5 * DAY_MS)
    with pytest.raises(CertificateError, match="has a valid certificate"):
        later.issue("plc-1")


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "x" * 65, "ünï", "a b"])
def test_names_that_are_none(authority: Authority, name: str) -> None:
    with pytest.raises(CertificateError, match="expected a name"):
        authority.issue(name)
    assert authority.issued() == []


def test_what_cannot_be_done_is_one_line(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="holds an authority already"):
        authority.create("Other")
    with pytest.raises(CertificateError, match="was never issued"):
        authority.renew("plc-1")
    with pytest.raises(CertificateError, match="has no valid certificate"):
        authority.revoke("plc-1")
    with pytest.raises(CertificateError, match=r"holds no authority \(forebay cert init\)"):
        Authority(tmp_path / "none", NOW_MS).issue("plc-1")
    with pytest.raises(CertificateError, match="never set"):
        Authority(tmp_path / "none", 1_000_000)
    with pytest.raises(CertificateError, match="expected a host name"):
        authority.issue("plc-1", hosts=["münchen"])
    (tmp_path / "plain").touch()
    with pytest.raises(CertificateError, match="cannot be written"):
        Authority(tmp_path / "plain" / "ca", NOW_MS).create("Plant")
    (authority.folder / "ca.key").write_text("broken")
    with pytest.raises(CertificateError, match="cannot be used"):
        authority.issue("plc-1")
    (authority.folder / "index.json").write_text("[{}]")
    with pytest.raises(CertificateError, match="is damaged"):
        authority.issued()


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CertificateError, match="the package cryptography is missing"):
        Authority(tmp_path / "ca", NOW_MS).create("Plant")
