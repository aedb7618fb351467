"""STATE payloads, by which a host says whether it is online: JSON (3.0) or a word (2.2).

Lenient in, but only where nothing is guessed: ``online`` must be a JSON boolean and ``timestamp`` a JSON number
[tck-id-message-flow-edge-node-birth-publish-phid-wait-online].
"""

import json
from dataclasses import dataclass
from typing import Final, final

_PAYLOAD_BYTES_MAX: Final = 4096
_WORDS: Final = {b"ONLINE": True, b"OFFLINE": False}


class StateError(ValueError):
    """The payload is no STATE; the text says what is wrong with it."""


@final
@dataclass(frozen=True, slots=True)
class State:
    """``timestamp`` is UTC ms; the word of 2.2 has none (None): it tells of the session in which it comes, no more."""

    online: bool
    timestamp: int | None

    def follows(self, last: "State | None") -> bool:
        """Not older than ``last``; the first one seen is always valid [tck-id-...-phid-wait-timestamp]."""
        if last is None or last.timestamp is None or self.timestamp is None:
            return True
        return self.timestamp >= last.timestamp


def decode(payload: bytes, *, legacy: bool = False) -> State | None:
    """What the payload says, None when it is empty: the retained message was cleared. Raises StateError.

    With ``legacy`` (a ``STATE/HOST`` topic) the words count too, as hosts on the way from 2.2 to 3.0 send either.
    """
    if not payload:
        return None
    if len(payload) > _PAYLOAD_BYTES_MAX:
        raise StateError(f"{len(payload)} bytes")
    if legacy and (word := _WORDS.get(payload.strip().upper())) is not None:
        return State(word, None)
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        raise StateError("neither JSON nor a word of 2.2" if legacy else "not JSON") from None
    if not isinstance(found, dict):
        raise StateError("not a JSON object")
    online, timestamp = found.get("online"), found.get("timestamp")
    if not isinstance(online, bool):
        raise StateError("'online' is not true or false")
    if isinstance(timestamp, float) and timestamp.is_integer():
        timestamp = int(timestamp)
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or timestamp < 0:
        raise StateError("'timestamp' is not a count of milliseconds")
    return State(online, timestamp)


def encode(state: State) -> bytes:
    """The JSON of 3.0, or the word of 2.2 for a state without a timestamp."""
    if state.timestamp is None:
        return b"ONLINE" if state.online else b"OFFLINE"
    return json.dumps({"online": state.online, "timestamp": state.timestamp}, separators=(",", ":")).encode()
