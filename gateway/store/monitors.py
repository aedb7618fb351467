"""Asks NATS servers, at their monitoring addresses, whether they sync each message before they acknowledge it."""

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Sequence
from typing import Final

TIMEOUT_S: Final = 2.0


async def syncs(addresses: Sequence[str]) -> str:
    """ "always", "not always" or "unknown": what all that answer have in common, the worst first."""
    if not addresses:
        return "unknown"
    found = await asyncio.gather(*(asyncio.to_thread(_ask, address) for address in addresses))
    for word in ("not always", "unknown"):
        if word in found:
            return word
    return "always"


def _ask(address: str) -> str:
    try:
        with urllib.request.urlopen(f"{address}/jsz", timeout=TIMEOUT_S) as answer:
            config = json.load(answer)["config"]
            return "always" if config.get("sync_always") else "not always"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, http.client.HTTPException):
        return "unknown"
