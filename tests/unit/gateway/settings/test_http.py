"""The settings of the HTTP listener."""

from pathlib import Path

import pytest

from gateway.settings.table import SettingsError, Sources, load


def test_no_listener_unless_one_is_set() -> None:
    settings = load(Sources(), {})
    assert settings.http_listen == settings.http_listen_tls == []
    assert load(Sources(sets=("http.listen=127.0.0.1:8080,[::1]:8080",)), {}).http_listen == [
        ("127.0.0.1", 8080),
        ("::1", 8080),
    ]


def test_https_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r'^tls.cert = "": expected a PEM file, since http.listen_tls is set$'):
        load(Sources(sets=("http.listen_tls=127.0.0.1:8443",)), {})


def test_metrics_need_a_login_and_no_cookie_is_for_all() -> None:
    settings = load(Sources(), {})
    assert (settings.http_login, settings.http_metrics_open, settings.http_session_metrics) == ("auto", False, 100)
