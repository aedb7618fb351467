"""A row of the settings table."""

from gateway.settings.entry import Entry, RowError, discreet, shown
from gateway.settings.kinds import Integer


def test_names_of_a_row() -> None:
    entry = Entry("a.b-c.d_e", Integer(), "Help.", "", 1, "OTHER")
    assert (entry.env, entry.field) == ("FOREBAY_A_B_C_D_E", "a_b_c_d_e")


def test_what_is_shown_of_a_value() -> None:
    assert shown([{"user": "u", "password": "geheim"}]) == '[{"user": "u", "password ***'
    assert shown({"password_file": "/etc/x"}) == '{"password_file": "/etc/x"}'
    assert shown("mqtt://u:geheim@host:1") == '"mqtt://***@host:1"'
    assert len(shown("x" * 500)) == 120


def test_a_row_error_is_led_to_from_outside() -> None:
    inner = RowError(".filter", 5, "a filter")
    assert str(inner) == ".filter = 5: expected a filter"
    assert str(inner.inside("uplink.a.rules[1]")) == "uplink.a.rules[1].filter = 5: expected a filter"


def test_a_line_of_a_file_shows_no_password() -> None:
    assert discreet('password = "geheim') == "password ***"
    assert discreet('{ user = "u", password="geheim" }') == '{ user = "u", password ***'
