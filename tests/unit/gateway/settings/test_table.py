"""Where settings come from, which source wins, and the one line that a wrong one gets."""

from pathlib import Path

import pytest

from gateway.core.limits import DROP_NEWEST, NEVER, PUSH_BACK, Limits
from gateway.settings.table import TABLE, Settings, SettingsError, Sources, as_toml, load


def file_settings(tmp_path: Path, text: str, *sets: str, **environ: str) -> Settings:
    path = tmp_path / "forebay.toml"
    path.write_text(text)
    return load(Sources(path, sets), environ)


def error_of(tmp_path: Path, text: str, *sets: str, **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        file_settings(tmp_path, text, *sets, **environ)
    message = str(caught.value).replace(str(tmp_path) + "/", "")
    assert "\n" not in message
    return message


def test_the_defaults_are_those_of_the_core() -> None:
    assert vars_of(load(Sources(sets=("board=none",)), {}).limits()) == vars_of(Limits())


def vars_of(limits: Limits) -> dict[str, object]:
    return {name: getattr(limits, name) for name in dir(limits) if not name.startswith("_")}


def test_every_field_is_its_dotted_name_and_fills_a_limit_that_exists() -> None:
    settings = load(Sources(), {})
    for entry in TABLE.values():
        assert hasattr(settings, entry.field)
        assert entry.help.endswith(".")
        assert not entry.limit or hasattr(Limits(), entry.limit)


def test_later_sources_win(tmp_path: Path) -> None:
    text = "mqtt.max_inflight = 1\nmqtt.receive_maximum = 1\nlisten = ['0.0.0.0:1']\n[store]\nmax_bytes = '2MiB'\n"
    env = {"FOREBAY_MQTT_MAX_INFLIGHT": "2", "FOREBAY_MQTT_RECEIVE_MAXIMUM": "2", "FOREBAY_LISTEN": "h:2"}
    path = tmp_path / "forebay.toml"
    path.write_text(text)
    settings = load(Sources(path, ("mqtt.max_inflight = 3",), (("listen", ["[::1]:3"]),)), env)
    assert settings.store_max_bytes == 2 << 20
    assert settings.mqtt_receive_maximum == 2
    assert settings.mqtt_max_inflight == 3
    assert settings.listen == [("::1", 3)]


def test_limits_carry_the_values_in_their_units(tmp_path: Path) -> None:
    limits = file_settings(
        tmp_path,
        """
        sys_interval = 2
        [mqtt]
        mqueue_policy = "push_back"
        keepalive_multiplier = 2.5
        connect_timeout = "250ms"
        session_expiry_interval = "2h"
        max_session_expiry_interval = "never"
        max_mqueue_len = "unlimited"
        [store]
        push_back_s = 7
        [[min_session_expiry]]
        client_id = "scada-*"
        seconds = "7d"
        """,
    ).limits()
    assert (limits.mqueue_policy, limits.keepalive_percent, limits.connect_timeout_ms) == (PUSH_BACK, 250, 250)
    assert (limits.session_expiry_s, limits.max_session_expiry_s, limits.max_mqueue_len) == (7200, NEVER, 0)
    assert (limits.push_back_ms, limits.sys_interval_ms) == (7000, 2000)
    assert limits.min_session_expiry == [("scada-*", 604_800)]
    assert load(Sources(sets=("mqtt.mqueue_policy=drop_newest",)), {}).limits().mqueue_policy == DROP_NEWEST


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'store.max_bytes = "x"',
            'forebay.toml: store.max_bytes = "x": expected an integer from 1048576 to 1125899906842624 (bytes)',
        ),
        ("[mqtt]\nmax_inflight = 0", "forebay.toml: mqtt.max_inflight = 0: expected an integer from 1 to 65535"),
        ("[mqtt]\nmax_inflght = 5", "forebay.toml: mqtt.max_inflght = 5: unknown key; did you mean mqtt.max_inflight?"),
        ('password = "hush"', "forebay.toml: password = ***: unknown key; did you mean password_file?"),
        ("max_inflight = 5", "forebay.toml: max_inflight = 5: unknown key; did you mean mqtt.max_inflight?"),
        ("[mqqt]\nx = 5", "forebay.toml: mqqt = {"),
        ("mqtt = 5", "forebay.toml: mqtt = 5: expected a table with keys such as mqtt."),
        ('durability = "none"', 'forebay.toml: durability = "none": expected one of "fsync", "os"'),
        ("listen = []", "listen = []: expected at least one"),
        ("data_dir = ''", 'forebay.toml: data_dir = "": expected a path'),
        ('listeners.tls = ["h:1"]', 'tls.cert = "": expected a PEM file'),
        ("x = 1\nx = 2", "forebay.toml: line 2: x = 2: not valid TOML: "),
        ("mqtt.upgrade_qos = maybe", "forebay.toml: line 1: mqtt.upgrade_qos = maybe: not valid TOML: "),
        ("[mqtt", "forebay.toml: line 1: [mqtt: not valid TOML: "),
        ('log.level = "' + "x" * 500 + '"', 'forebay.toml: log.level = "xxx'),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it_all(tmp_path: Path, text: str, message: str) -> None:
    assert error_of(tmp_path, text).startswith(message)
    assert len(error_of(tmp_path, text)) < 300


def test_wrong_set_and_environment_say_where(tmp_path: Path) -> None:
    assert error_of(tmp_path, "", "sys_interval=x").startswith('--set: sys_interval = "x": expected seconds')
    assert error_of(tmp_path, "", "sys_interval") == '--set: "sys_interval": expected key=value'
    assert "did you mean sys_interval?" in error_of(tmp_path, "", "sys_intervall=1")
    assert error_of(tmp_path, "", FOREBAY_SYS_INTERVAL="x").startswith('FOREBAY_SYS_INTERVAL: sys_interval = "x"')


def test_a_misspelt_variable_is_noted_and_a_foreign_one_is_not(tmp_path: Path) -> None:
    notes = file_settings(tmp_path, "", FOREBAY_DATA_DIRR="x", FOREBAY_SERVICE_HOST="10.0.0.1").notes
    assert notes == ["FOREBAY_DATA_DIRR is no setting and has no effect; did you mean FOREBAY_DATA_DIR?"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, expected in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(SettingsError, match=f"{path}: cannot be read: {expected}"):
            load(Sources(path), {})
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8 at byte 0"):
        load(Sources(binary), {})


def test_files_of_strange_editors(tmp_path: Path) -> None:
    assert file_settings(tmp_path, "\ufeff[mqtt]\r\nmax_inflight = 5\r\n").mqtt_max_inflight == 5
    assert error_of(tmp_path, "x = " + "[" * 100_000) == "forebay.toml: not valid TOML: nested too deeply"
    long = "forebay.toml: not valid TOML: a number with thousands of digits"
    assert error_of(tmp_path, "x = " + "9" * 5000) == long


def test_a_file_of_tls_that_is_not_there_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "cert").touch()
    tls = f"listeners.tls = ['h:1']\ntls.cert = '{tmp_path}/cert'\ntls.key = '{tmp_path}/key'\n"
    said = f'tls.key = "{tmp_path}/key": expected a PEM file, but there is none: what needs it waits for it'
    assert file_settings(tmp_path, tls + "listeners.wss = ['h:2']\n").notes == [said]
    (tmp_path / "key").touch()
    assert file_settings(tmp_path, tls).notes == []


def test_what_is_shown_is_a_file_that_says_the_same(tmp_path: Path) -> None:
    settings = file_settings(tmp_path, "", "mqtt.max_inflight=7", "min_session_expiry=a-*=7d", "tls.min_version=1.3")
    again = file_settings(tmp_path, "\n".join(as_toml(settings)))
    assert list(as_toml(again)) == list(as_toml(settings))
    assert list(as_toml(settings, ["mqtt.max_inflight"])) == ["mqtt.max_inflight = 7"]


def test_reload_reads_the_sources_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = file_settings(tmp_path, "mqtt.max_inflight = 3", "mqtt.receive_maximum=5")
    (tmp_path / "forebay.toml").write_text("mqtt.max_inflight = 4")
    again = settings.reload()
    assert (again.mqtt_max_inflight, again.mqtt_receive_maximum) == (4, 5)
    (tmp_path / "forebay.toml").write_text("mqtt.max_inflight = 0")
    with pytest.raises(SettingsError):
        again.reload()


def test_paths_follow_the_data_folder() -> None:
    settings = load(Sources(options=(("data_dir", "/d"),)), {})
    assert (settings.passwords, settings.control_socket) == (Path("/d/passwd"), Path("/d/control.sock"))
    assert load(Sources(sets=("password_file=/p",)), {}).passwords == Path("/p")
