"""What is wrong on a publisher's side: the QoS it publishes at, what becomes of its messages while it is cut off."""

from collections.abc import Iterator
from typing import Any, Final

from gateway.doctor.case import Case, span
from gateway.doctor.finding import (
    ALWAYS,
    AWAY_TOO_LONG,
    COLLECTOR,
    COLLECTOR_AWAY,
    DEAD_LINK,
    ERROR,
    GATEWAY,
    GATEWAY_DOWN,
    GATEWAY_KILLED,
    NOTE,
    PUBLISHER,
    WARNING,
    Finding,
)
from gateway.doctor.products import CLEAN, CLIENT_ID, DROPS, KEEP_ALIVE, KEEPS, QOS
from gateway.doctor.snapshot import Client, Lead

TOPICS_SHOWN: Final = 3


def check(case: Case) -> Iterator[Finding]:
    by_publisher: dict[str, list[tuple[Lead, dict[str, int]]]] = {}
    for lead, targets in case.leads:
        if targets:
            by_publisher.setdefault(lead.publisher, []).append((lead, targets))
    for client in case.publishers():
        leads = by_publisher[client.client_id]
        yield from _published(case, client, [lead for lead, _ in leads])
        yield from _keeps(case, client, [lead for lead, _ in leads])
        yield from _too_large(case, client, leads)
    yield from _keep_alives(case)
    yield from _unheard(case)


def _published(case: Case, client: Client, leads: list[Lead]) -> Iterator[Finding]:
    product, machine = case.product(client.client_id), case.machine(client.client_id)
    gateway, common = case.gateway, {"publisher": client.client_id}
    raised = [lead for lead in leads if lead.sparkplug and 0 in lead.qos]
    low = [lead for lead in leads if 0 in lead.qos and not (lead.sparkplug and gateway.bridge)]
    spoken = [lead for lead in low if lead.topic.startswith("spBv1.0/")]
    if spoken:
        yield Finding(
            "sparkplug_not_raised", ERROR, f"{client.client_id} speaks Sparkplug at QoS 0 and the bridge is off",
            "Sparkplug prescribes QoS 0; the bridge keeps it on arrival as if it were QoS 1",
            "bridge.enabled = true", GATEWAY, "this gateway", topic=_topics(spoken),
            loses=(COLLECTOR_AWAY, GATEWAY_KILLED, GATEWAY_DOWN, DEAD_LINK), **common,
        )  # fmt: skip
    low = [lead for lead in low if lead not in spoken]
    if low and gateway.upgrade_qos:
        yield Finding(
            "publish_qos0", WARNING, f"{client.client_id} publishes {_topics(low)} at QoS 0, raised on arrival",
            "what is on its way when the link breaks is not sent again",
            product.word(QOS), PUBLISHER, machine, topic=_topics(low), loses=(GATEWAY_DOWN, DEAD_LINK),
            only_while="the publisher's link stands", **common,
        )  # fmt: skip
    elif low:
        loses = (GATEWAY_DOWN, DEAD_LINK)
        yield Finding(
            "publish_qos0", ERROR, f"{client.client_id} publishes {_topics(low)} at QoS 0",
            "QoS 0 is sent once and kept nowhere, whatever the collector has subscribed with",
            product.word(QOS), PUBLISHER, machine, topic=_topics(low),
            loses=loses if gateway.store_qos0 else (COLLECTOR_AWAY, GATEWAY_KILLED, *loses), **common,
        )  # fmt: skip
    if raised and gateway.bridge:
        yield _speaks(case, client, raised)
    if raised and gateway.bridge and gateway.bridge_elide:
        yield Finding(
            "bridge_elide", WARNING, f"QoS 0 of {client.client_id} may be acknowledged before it is on disk",
            "a crash loses what was on its way to a collector that is there",
            "bridge.elide = false", GATEWAY, "this gateway", topic=_topics(raised), loses=(GATEWAY_KILLED,),
            only_while="the gateway does not crash", **common,
        )  # fmt: skip


def _speaks(case: Case, client: Client, leads: list[Lead]) -> Finding:
    """Sparkplug at QoS 0 is as prescribed; what its link loses only the device can keep (forebay sparkplug ladder)."""
    names = {"/".join(lead.topic.split("/")[1:4:2]) for lead in leads}
    nodes = [node for node in case.snapshot.nodes if node["node"] in names]
    safe = bool(nodes) and all(node["step"] in ("device", "native") for node in nodes)
    remains = nodes[0]["remains"] if nodes else "what it sends into a dead link, and all that it makes while it is away"
    advice = next((text for node in nodes for text in node["advice"]), "")
    return Finding(
        "sparkplug_qos0", NOTE, f"{client.client_id} speaks Sparkplug at QoS 0: kept from its arrival on",
        f"may still be lost: {remains}", advice or "the device's own store and forward: forebay sparkplug ladder",
        PUBLISHER, case.machine(client.client_id), publisher=client.client_id, topic=_topics(leads),
        loses=() if safe else (GATEWAY_DOWN, DEAD_LINK), only_while="the device's link to the gateway stands",
    )  # fmt: skip


def _keeps(case: Case, client: Client, leads: list[Lead]) -> Iterator[Finding]:
    """What becomes of what it makes while it cannot reach the gateway."""
    product, machine = case.product(client.client_id), case.machine(client.client_id)
    common: dict[str, Any] = {"publisher": client.client_id}
    if all(lead.qos == (0,) for lead in leads):
        return  # it has nothing to keep
    if client.message_expiry_s is not None and client.message_expiry_s < case.ask.outage_s:
        yield Finding(
            "publisher_message_expiry", ERROR,
            f"messages of {client.client_id} expire after {span(client.message_expiry_s)}",
            "what waits longer for its collector is dropped, as the publisher has asked for",
            f"message expiry interval = {case.ask.outage_s} (s) or more, or none", PUBLISHER, machine,
            loses=(AWAY_TOO_LONG,),
            only_while=f"the collector is away for less than {span(client.message_expiry_s)}", **common,
        )  # fmt: skip
    if product.offline == DROPS:
        yield Finding(
            "publisher_drops_offline", WARNING if client.keep_alive_s else NOTE,
            f"{product.title} ({client.client_id}) drops what it makes offline",
            "it queues only as long as it believes that it is connected; with keep alive 0 a broken network does not "
            "shake that, and it queues in memory (lost with its restart); when the gateway's process ends it knows",
            "keep alive = 0", PUBLISHER, machine, loses=(GATEWAY_DOWN,),
            only_while="the publisher reaches the gateway", **common,
        )  # fmt: skip
    elif product.offline == KEEPS:
        return
    elif client.ends_with_connection:
        if client.is_v5 and not client.clean:
            words = f"session expiry interval = {case.ask.outage_s} (s) or more"
        else:
            words = product.word(CLEAN)
        yield Finding(
            "publisher_clean_session", WARNING, f"the session of {client.client_id} ends with its connection",
            "what was not acknowledged belongs to the session: a client that goes by the standard throws it away when "
            "it connects anew",
            words, PUBLISHER, machine, loses=(GATEWAY_DOWN,), only_while="the publisher reaches the gateway", **common,
        )  # fmt: skip
    elif case.is_random(client.client_id):
        yield Finding(
            "publisher_random_id", WARNING, f"the client id {client.client_id} is another at each start",
            "a session is found again by the client id alone: after a restart of the publisher what was not "
            "acknowledged is gone, and its old session stays behind",
            product.word(CLIENT_ID), PUBLISHER, machine, loses=(), **common,
        )  # fmt: skip


def _too_large(case: Case, client: Client, leads: list[tuple[Lead, dict[str, int]]]) -> Iterator[Finding]:
    for name in dict.fromkeys(name for _, targets in leads for name in targets):
        reader = case.clients.get(name)
        if reader is not None and reader.max_packet is not None and client.largest > reader.max_packet:
            yield Finding(
                "collector_max_packet", ERROR,
                f"{name} takes packets of at most {reader.max_packet} bytes, {client.client_id} sends {client.largest}",
                "what is larger is dropped for it, as it has asked for in its CONNECT",
                f"maximum packet size = {2 * client.largest} or more", COLLECTOR, case.machine(name),
                publisher=client.client_id, collector=name, loses=(ALWAYS,),
            )  # fmt: skip


def _keep_alives(case: Case) -> Iterator[Finding]:
    """The blind gap: so long nobody knows that a link is dead."""
    collecting = {keeper.client_id for keeper in case.collectors if keeper.connected}
    publishing = {client.client_id for client in case.publishers() if client.connected}
    for name in [*collecting, *(publishing - collecting)]:
        client = case.clients.get(name)
        if client is None or (name in publishing and case.product(name).offline == DROPS):
            continue
        gap = client.keep_alive_s * case.gateway.keep_alive_percent / 100
        where = COLLECTOR if name in collecting else PUBLISHER
        common: dict[str, Any] = {"collector" if name in collecting else "publisher": name}
        word, machine = case.product(name).word(KEEP_ALIVE), case.machine(name)
        if client.keep_alive_s == 0:
            yield Finding(
                "keep_alive_off", WARNING, f"{name} has no keep alive",
                "a dead link is noticed only when TCP gives up, or never: until then its messages wait unacknowledged",
                word, where, machine, **common,
            )  # fmt: skip
        elif client.keep_alive_s > case.ask.keep_alive_s:
            yield Finding(
                "keep_alive_long", WARNING, f"{name} has a keep alive of {span(client.keep_alive_s)}",
                f"a dead link is noticed after {span(gap)} (keep alive x {case.gateway.keep_alive_percent / 100:g}): "
                "so late its messages come again",
                word, where, machine, **common,
            )  # fmt: skip


def _unheard(case: Case) -> Iterator[Finding]:
    by_publisher: dict[str, list[Lead]] = {}
    for lead, _ in case.leads:
        if not lead.targets:
            by_publisher.setdefault(lead.publisher, []).append(lead)
    for name, leads in by_publisher.items():
        yield Finding(
            "no_subscriber", NOTE, f"nobody subscribes to {_topics(leads)} of {name}",
            "what nobody has subscribed to is kept for nobody",
            "a filter at the collector that matches", COLLECTOR, "the collector that is to have it", publisher=name,
            topic=_topics(leads),
        )  # fmt: skip


def _topics(leads: list[Lead]) -> str:
    shown = ", ".join(lead.topic for lead in leads[:TOPICS_SHOWN])
    return shown if len(leads) <= TOPICS_SHOWN else f"{shown} and {len(leads) - TOPICS_SHOWN} others"
