"""Rows of the core become typed values."""

from typing import Any

from gateway.core.facts import facts
from gateway.doctor.snapshot import Client, clients_of, keepers_of, leads_of
from tests.core_rig import broker, connect, core_of, fill


def test_all_rows_of_the_core_are_understood() -> None:
    b = broker()
    connect(b, "s", 4).subscribe("t", qos=1)
    connect(b, "g").subscribe("$share/x/t", qos=1)
    fill(b, "t", 2)
    rows: Any = facts(core_of(b), b.now)
    clients, keepers = clients_of(rows["clients"]), keepers_of(rows["keepers"])
    leads = leads_of(rows["flows"])
    assert clients["s"].asked == {"t": 1}
    assert (keepers["s"].persistent, keepers["$share/x/t"].members) == (True, ("g",))
    assert [(lead.publisher, lead.topic, lead.qos, lead.targets) for lead in leads] == [
        ("filler", "t", (1,), {"s": 1, "$share/x/t": 1})
    ]


def test_a_session_ends_by_what_its_version_means() -> None:
    assert Client(client_id="c", clean=True).ends_with_connection
    assert not Client(client_id="c", clean=False).ends_with_connection
    assert Client(client_id="c", version="5.0", clean=False).ends_with_connection
    assert not Client(client_id="c", version="5.0", clean=True, expiry_s=60).ends_with_connection
    assert Client(client_id="c", peer="[::1]:99").host == "[::1]"
