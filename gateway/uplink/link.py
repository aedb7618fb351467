"""The connection of an uplink: like that of a client, but that it was dialled from here."""

from gateway.core.uplink import Login
from gateway.net.connection import Connection, Turn


def attach(turn: Turn, login: Login, peer: str) -> Connection:
    """The protocol for a transport to the remote: its connection_made() sends the CONNECT.

    What the remote says to that comes as an event (UplinkPort.take_events), as does the end of the connection.
    ``peer`` is what ``forebay sessions`` shows. connection_made() raises KeyError when no such uplink is configured.
    """
    return Connection(turn, peer, False, login)
