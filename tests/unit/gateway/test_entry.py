"""A row of the settings table."""

from gateway.entry import Entry
from gateway.kinds import Integer


def test_names_of_a_row() -> None:
    entry = Entry("a.b-c.d_e", Integer(), "Help.", "", 1, "OTHER")
    assert (entry.env, entry.field) == ("FOREBAY_A_B_C_D_E", "a_b_c_d_e")
