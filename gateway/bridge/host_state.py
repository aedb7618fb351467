"""The gateway's own STATE: a host that is online while the disk takes what nodes say.

A device whose primary host this is stores by itself as soon as the gateway cannot. Nobody else may publish on these
topics (``Limits.own_topics``), so what is retained there is the gateway's own, at most one of before a crash; and that
is replaced before the first client comes in.
"""

from typing import Final, final

from gateway.core.port import BridgePort
from gateway.settings.bridge import state_topics
from sparkplug.state import State, encode

KEY: Final = "host"  # the row with the id that was used last


@final
class HostState:
    """``known`` is the id of before this start, "" for none."""

    def __init__(self, port: BridgePort, known: str) -> None:
        self._port = port
        self._id = known
        self._said: bool | None = None  # None: nothing by this process

    def configure(self, host_id: str, now: int) -> None:
        """Another id takes the place of the last one, which goes offline for good."""
        if host_id == self._id:
            return
        self._say(False, now)
        self._id = host_id
        self._said = None
        self._port.keep(KEY, host_id.encode() or None, now)

    def tick(self, now: int) -> None:
        online = self._port.healthy()
        if self._id and online is not self._said:
            self._say(online, now)

    def stop(self, now: int) -> None:
        """The gateway goes: so does its host."""
        self._say(False, now)

    def _say(self, online: bool, now: int) -> None:
        if not self._id:
            return
        self._said = online
        for topic, at in zip(state_topics(self._id), (self._port.utc_ms(now), None), strict=True):
            self._port.publish(topic, encode(State(online, at)), 1, True, now)
