"""What proves to an engine who this gateway is; that servers take it is shown in test_nats.py."""

from pathlib import Path

import pytest
import trustme

from gateway.store.engine import EngineRefused
from gateway.store.login import Files, Login


def test_nothing_of_it() -> None:
    assert Files()() == Login()


def test_it_is_read_each_time(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    files = Files(user="u", password=secret)
    for word in ("one", "two"):
        secret.write_text(f"{word}\n")
        assert files()[:2] == ("u", word)


def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own = authority.issue_cert("gateway")
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    ca, cert = tmp_path / "ca.pem", tmp_path / "own.pem"
    assert Files(ca=ca, cert=cert)().tls is None
    context = Files(tls=True, ca=ca, cert=cert)().tls
    assert context is not None and len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("key", ["password", "creds", "ca", "cert"])
@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"nonsense"])
def test_what_cannot_be_used_is_one_line(tmp_path: Path, key: str, content: bytes | None) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    if (key, content) == ("password", b"nonsense"):
        return
    given: dict[str, Path] = {key: path}
    with pytest.raises(EngineRefused) as refused:
        Files(tls=True, **given)()  # type: ignore[arg-type]
    said = str(refused.value)
    assert f' = "{path}": ' in said and key in said and "\n" not in said
