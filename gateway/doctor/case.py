"""The snapshot as the checks ask for it: who collects, who publishes, which program is behind a client id."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from gateway.core.patterns import matches
from gateway.core.topics import matches as filter_matches
from gateway.core.topics import split_share
from gateway.doctor.products import Product, is_made_up, product_of, stem
from gateway.doctor.snapshot import Ask, Client, Keeper, Lead, Snapshot
from gateway.settings.collector import CollectorRule

QOS_BITS: Final = 3  # of what a SUBACK grants
REFUSED: Final = 0x80
GONE_MS: Final = 86_400_000  # after it a collector is no longer missed
HEIRS_MAX: Final = 20  # sessions with the same filters that are looked at


@final
class Case:
    def __init__(self, snapshot: Snapshot, ask: Ask) -> None:
        self.snapshot, self.ask, self.gateway = snapshot, ask, snapshot.gateway
        self.clients = snapshot.clients
        self._rules: dict[str, CollectorRule | None] = {}
        self._products: dict[str, Product] = {}
        self._alike: dict[tuple[str, str], list[Client]] = {}  # of one machine, ids that differ in their ends only
        self._there: Counter[tuple[str, str]] = Counter()  # of these, how many are connected
        for client in self.clients.values():
            if root := stem(client.client_id):
                self._alike.setdefault((client.host, root), []).append(client)
                self._there[client.host, root] += client.connected
        self.keepers = {**snapshot.keepers, **{keeper.client_id: keeper for keeper in self._ended()}}
        self.collectors = [keeper for keeper in self.keepers.values() if self._collects(keeper)]
        self._names = {keeper.client_id for keeper in self.collectors}
        self._gone = [keeper for keeper in self.collectors if keeper.client_id not in snapshot.keepers]
        self._in_use: dict[frozenset[str], list[Keeper]] = {}  # by their filters
        for keeper in self.collectors:
            if keeper.connected and keeper.persistent:
                self._in_use.setdefault(frozenset(keeper.subscriptions), []).append(keeper)
        # each topic with the collectors that it leads to, and the QoS of their subscriptions
        self.leads = [
            (lead, self._leads_to(lead))
            for lead in snapshot.leads
            if not lead.closed and not lead.topic.startswith("$") and lead.publisher in self.clients
        ]

    def publishers(self) -> list[Client]:
        """Clients whose topics lead to a collector; not tools that send one message by hand."""
        names = dict.fromkeys(lead.publisher for lead, targets in self.leads if targets)
        return [self.clients[name] for name in names if not self.product(name).tool]

    def rule(self, client_id: str) -> CollectorRule | None:
        """The row of the settings that declares this collector."""
        if client_id not in self._rules:
            found = (rule for rule in self.gateway.collectors if matches(client_id, rule.client_id))
            self._rules[client_id] = next(found, None)
        return self._rules[client_id]

    def product(self, client_id: str) -> Product:
        if client_id not in self._products:
            rule = self.rule(client_id)
            self._products[client_id] = product_of(client_id, rule.product if rule is not None else "")
        return self._products[client_id]

    def machine(self, client_id: str) -> str:
        """Name and address, for people."""
        client = self.clients.get(client_id)
        return f"{client_id} at {client.host}" if client is not None and client.host else client_id

    def is_random(self, client_id: str) -> bool:
        """Whether this id is another at each start: given by the broker, known as made up, or others were like it."""
        client = self.clients.get(client_id)
        if is_made_up(client_id) or (client is not None and client.assigned):
            return True
        root = stem(client_id)
        if client is None or not root or not client.connected or self._there[client.host, root] > 1:
            return False  # others are there: devices of a fleet behind one address
        others = [one for one in self._alike[client.host, root] if one is not client]
        return len(others) >= 2 and all(one.since_ms >= client.since_ms for one in others)  # one after the other

    def has_heir(self, keeper: Keeper) -> bool:
        """Whether a session with the same filters is in use on the same machine: the client has another id now."""
        client = self.clients.get(keeper.client_id)
        for other in self._in_use.get(frozenset(keeper.subscriptions), [])[:HEIRS_MAX]:
            heir = self.clients.get(other.client_id)
            if client is None or heir is None or (client.host == heir.host and heir.since_ms <= client.since_ms):
                return True
        return False

    def _ended(self) -> Iterator[Keeper]:
        """Subscribers that left and whose sessions ended with it: nothing is kept for them."""
        for client in self.clients.values():
            if client.connected or client.client_id in self.snapshot.keepers or client.since_ms > GONE_MS:
                continue
            if client.connects < 2 and self.rule(client.client_id) is None:
                continue  # somebody who looked in
            filters = {name: code & QOS_BITS for name, code in client.asked.items() if code < REFUSED}
            if filters and not self.is_random(client.client_id):
                yield Keeper(
                    client_id=client.client_id, connected=False, persistent=False, subscriptions=filters, expiry_s=0
                )

    def _collects(self, keeper: Keeper) -> bool:
        """Declared ones if any are; else who takes in what others say, and not a device that waits for its commands."""
        if self.rule(keeper.client_id) is not None or (keeper.application and keeper.subscriptions):
            return True
        if self.gateway.collectors:
            return any(self.rule(member) is not None for member in keeper.members)
        client = self.clients.get(keeper.client_id)
        if self.product(keeper.client_id).tool:
            return False
        data = [name for name in keeper.subscriptions if not split_share(name)[1].startswith("$")]
        refused = client is not None and any(code >= REFUSED for code in client.asked.values())
        if not data and not refused:
            return False
        wild = any("#" in name or "+" in name for name in data)
        return wild or client is None or not client.publishes

    def _leads_to(self, lead: Lead) -> dict[str, int]:
        found = {name: qos for name, qos in lead.targets.items() if name in self._names and name != lead.publisher}
        for keeper in self._gone:
            if keeper.client_id == lead.publisher:
                continue
            granted = [qos for name, qos in keeper.subscriptions.items() if filter_matches(name, lead.topic)]
            if granted:
                found[keeper.client_id] = max(granted)
        return found


def span(seconds: float) -> str:
    """A time span for people."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def setting_span(seconds: int) -> str:
    """The same as a value of a setting: "8h"."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
