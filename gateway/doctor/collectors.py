"""What is wrong with a collector's session: whether it outlives an outage, and whether it is this collector's."""

import shlex
from collections.abc import Iterator
from typing import Any, Final

from gateway.core.topics import check_filter, matches, split_share
from gateway.doctor.case import REFUSED, Case, setting_span, span
from gateway.doctor.finding import (
    ALWAYS,
    AWAY_TOO_LONG,
    COLLECTOR,
    COLLECTOR_AWAY,
    ERROR,
    GATEWAY,
    GATEWAY_KILLED,
    NETWORK,
    WARNING,
    Finding,
)
from gateway.doctor.products import CLEAN, CLIENT_ID, EXPIRY, KEEP_ALIVE, QOS, TOPICS, WINDOW
from gateway.doctor.snapshot import Client, Keeper
from gateway.mqtt.reasons import QUOTA_EXCEEDED

QUARRELS: Final = 3
SILENCES: Final = 3
UNLIMITED_S: Final = 0xFFFFFFFF


def check(case: Case) -> Iterator[Finding]:
    """One collector after the other, then those that are expected and are not there."""
    for keeper in case.collectors:
        if keeper.kind == "group":
            yield from _group(case, keeper)
        else:
            yield from _session(case, keeper, case.clients.get(keeper.client_id))
    for client in case.clients.values():
        yield from _quarrel(case, client)
        yield from _silence(case, client)
    yield from _expected(case)


def _session(case: Case, keeper: Keeper, client: Client | None) -> Iterator[Finding]:
    yield from _held(case, keeper, client)
    plain = [name for name in keeper.subscriptions if not split_share(name)[0]]
    if not plain and keeper.subscriptions:
        return  # a member of groups: their queue is the group's
    if not keeper.persistent:
        if client is not None and plain:
            yield _ends(case, keeper, client)
    else:
        yield from _lasts(case, keeper, client)
    low = [name for name in plain if keeper.subscriptions[name] == 0 and not name.startswith("$")]
    if low and not case.gateway.upgrade_qos and not (case.gateway.store_qos0 and keeper.persistent):
        yield Finding(
            "subscription_qos0", ERROR,
            f"{keeper.client_id} subscribes to {_some(low)} at QoS 0",
            "a message is delivered at the lower of both QoS, and QoS 0 is not kept for who is away",
            case.product(keeper.client_id).word(QOS), COLLECTOR, case.machine(keeper.client_id),
            collector=keeper.client_id, loses=(COLLECTOR_AWAY, GATEWAY_KILLED),
        )  # fmt: skip
    yield from _answers(case, keeper)


def _ends(case: Case, keeper: Keeper, client: Client) -> Finding:
    """Its session ends with the connection."""
    product = case.product(keeper.client_id)
    if client.is_v5 and not client.clean:
        return Finding(
            "collector_no_expiry", ERROR,
            f"{keeper.client_id} asks for no session expiry interval",
            "with 5.0 a session without one ends with the connection, clean start = 0 or not; where the collector "
            "cannot ask for it, a row of min_session_expiry on the gateway grants it",
            f"{product.word(EXPIRY)} = {case.ask.outage_s} (s) or more", COLLECTOR, case.machine(keeper.client_id),
            collector=keeper.client_id, loses=(COLLECTOR_AWAY, GATEWAY_KILLED),
        )  # fmt: skip
    words = product.word(CLEAN)
    if client.is_v5 and CLEAN not in product.words:
        words = f"clean start = 0, with session expiry interval = {case.ask.outage_s} (s) or more"
    return Finding(
        "collector_clean_session", ERROR,
        f"{keeper.client_id} connects with {'clean start' if client.is_v5 else 'clean session'}",
        "its subscriptions and what waits for it are forgotten with the connection",
        words, COLLECTOR, case.machine(keeper.client_id),
        collector=keeper.client_id, loses=(COLLECTOR_AWAY, GATEWAY_KILLED),
    )  # fmt: skip


def _lasts(case: Case, keeper: Keeper, client: Client | None) -> Iterator[Finding]:
    """Its session outlives the connection: for how long, and does it come back to it?"""
    machine, product = case.machine(keeper.client_id), case.product(keeper.client_id)
    if _is_orphan(case, keeper):
        yield Finding(
            "orphan_session", WARNING,
            f"nobody comes back to the session {keeper.client_id}, {keeper.queued} messages wait in it",
            "another session has the same subscriptions and is in use: what gathers here fills the disk",
            _remove(keeper.client_id), GATEWAY, machine, collector=keeper.client_id,
        )  # fmt: skip
        return
    if client is not None and client.clean and client.is_v5:
        yield Finding(
            "collector_clean_start", ERROR,
            f"{keeper.client_id} connects with clean start = 1",
            "its session outlives the connection, but is thrown away when it comes back, whatever its expiry; no "
            "setting of the gateway helps against that",
            "clean start = 0", COLLECTOR, machine, collector=keeper.client_id, loses=(COLLECTOR_AWAY,),
        )  # fmt: skip
        return
    if case.is_random(keeper.client_id):
        yield Finding(
            "collector_random_id", ERROR,
            f"the client id {keeper.client_id} is another at each start",
            "a session is found again by the client id alone; under another one its queue stays behind",
            product.word(CLIENT_ID), COLLECTOR, machine, collector=keeper.client_id, loses=(COLLECTOR_AWAY,),
        )  # fmt: skip
    if keeper.expiry_s is not None and keeper.expiry_s < case.ask.outage_s:
        yield _expires(case, keeper, client, keeper.expiry_s)


def _expires(case: Case, keeper: Keeper, client: Client | None, expiry_s: int) -> Finding:
    machine, wanted = case.machine(keeper.client_id), setting_span(case.ask.outage_s)
    asked = client.expiry_s if client is not None else None
    capped = case.gateway.max_session_expiry_s
    common = {
        "collector": keeper.client_id,
        "only_while": f"the collector is away for less than {span(expiry_s)}",
    }
    why = f"its session ends {span(expiry_s)} after it left, before an outage of {span(case.ask.outage_s)} is over"
    if client is not None and not client.is_v5:
        return Finding(
            "session_expiry", ERROR, f"sessions of 3.1.1 clients such as {keeper.client_id} end too soon", why,
            f'mqtt.session_expiry_interval = "{wanted}"', GATEWAY, "this gateway", loses=(AWAY_TOO_LONG,), **common,
        )  # fmt: skip
    if asked is not None and asked > expiry_s and capped is not None and capped <= expiry_s:
        return Finding(
            "session_expiry_capped", ERROR,
            f"{keeper.client_id} asks for {_asked(asked)} and is given {span(expiry_s)}", why,
            f'mqtt.max_session_expiry_interval = "{wanted}"', GATEWAY, "this gateway", loses=(AWAY_TOO_LONG,), **common,
        )  # fmt: skip
    word = case.product(keeper.client_id).word(EXPIRY)
    return Finding(
        "collector_expiry", ERROR, f"the session of {keeper.client_id} lasts {span(expiry_s)}", why,
        f"{word} = {case.ask.outage_s} (s) or more", COLLECTOR, machine, loses=(AWAY_TOO_LONG,), **common,
    )  # fmt: skip


def _is_orphan(case: Case, keeper: Keeper) -> bool:
    """It is away, another that is there holds the same filters, and the two ids look like one program's."""
    if keeper.connected or not keeper.subscriptions or case.rule(keeper.client_id) is not None:
        return False
    return case.has_heir(keeper)


def _held(case: Case, keeper: Keeper, client: Client | None) -> Iterator[Finding]:
    """The subscriptions that it asked for against those that it has."""
    if client is None:
        return
    product, machine = case.product(keeper.client_id), case.machine(keeper.client_id)
    refused = [name for name, code in client.asked.items() if code >= REFUSED]
    if refused:
        code = client.asked[refused[0]]
        setting, where = _grant(refused[0], code, client.user, product.word(TOPICS))
        yield Finding(
            "subscription_refused", ERROR, f"{keeper.client_id} was refused {_some(refused)}",
            f"the SUBACK said 0x{code:02X}: nothing comes of it, and many clients do not look",
            setting, where, machine if where == COLLECTOR else "this gateway", collector=keeper.client_id,
            loses=(ALWAYS,),
        )  # fmt: skip
    stale = [name for name in keeper.subscriptions if name not in client.asked]
    # who asks for a few beside many that it holds has come back to its session and wants more
    asks_anew = len(client.asked) >= len(stale) and not client.asked_more
    if stale and asks_anew and keeper.persistent and client.connected:
        yield Finding(
            "subscription_stale", WARNING, f"{keeper.client_id} still holds {_some(stale)}, but does not ask for it",
            "a persistent session keeps a filter until it is unsubscribed: what matches it is queued and delivered",
            f"{_remove(keeper.client_id)} while it is stopped", GATEWAY, machine,
            collector=keeper.client_id,
        )  # fmt: skip


def _grant(name: str, code: int, user: str, topics: str) -> tuple[str, str]:
    """What lets a refused filter through, and on which side."""
    try:
        good = check_filter(split_share(name)[1], 0)
    except ValueError:
        good = False
    if not good:
        return topics, COLLECTOR
    if code == QUOTA_EXCEEDED:
        return "mqtt.max_subscriptions", GATEWAY
    who = ["--user", user] if user else []
    return shlex.join(["forebay", "acl", "allow", *who, "read", *_word(name)]), GATEWAY


def _remove(client_id: str) -> str:
    return shlex.join(["forebay", "sessions", "remove", *_word(client_id)])


def _word(text: str) -> list[str]:
    """Something that a client has said, in a command that somebody may copy."""
    return ["--", text] if text.startswith("-") else [text]


def _answers(case: Case, keeper: Keeper) -> Iterator[Finding]:
    """Whether it acknowledges, and fast enough."""
    product, machine = case.product(keeper.client_id), case.machine(keeper.client_id)
    if keeper.unacked_ms > case.ask.unacked_s * 1000:
        yield Finding(
            "collector_stuck", WARNING,
            f"{keeper.client_id} has not acknowledged a message for {span(keeper.unacked_ms / 1000)}",
            f"{keeper.inflight} of {keeper.window} slots are taken; it gets these again only when it connects anew "
            "(Telegraf holds a slot for a metric that its output has rejected)",
            f"{product.word(WINDOW)}: restart it and look in its log", COLLECTOR, machine, collector=keeper.client_id,
        )  # fmt: skip
    elif (
        keeper.window
        and keeper.inflight >= keeper.window >= case.gateway.max_inflight
        and keeper.queued > keeper.window
        and keeper.unacked_ms >= 1000
    ):
        yield Finding(
            "window_small", WARNING,
            f"{keeper.client_id} has its window of {keeper.window} full, {keeper.queued} messages wait behind it",
            "it acknowledges in batches, later than the window lets in",
            "mqtt.max_inflight = 1000", GATEWAY, "this gateway", collector=keeper.client_id,
        )  # fmt: skip


def _group(case: Case, keeper: Keeper) -> Iterator[Finding]:
    if not keeper.persistent:
        members = ", ".join(keeper.members)
        yield Finding(
            "group_not_persistent", ERROR, f"no member of {keeper.client_id} has a session that lasts",
            f"a shared subscription has a queue once one member's session outlives its connection ({members})",
            "clean session = false for a member, with a fixed client id", COLLECTOR, members,
            collector=keeper.client_id, loses=(COLLECTOR_AWAY, GATEWAY_KILLED),
        )  # fmt: skip


def _quarrel(case: Case, client: Client) -> Iterator[Finding]:
    if client.quarrels >= QUARRELS:
        yield Finding(
            "duplicate_client_id", ERROR,
            f"two clients use the client id {client.client_id}, at {client.rival} and {client.peer}",
            f"each CONNECT of one ends the other's connection, {client.quarrels} times so far; they share one session",
            "a client id of its own for one of them", _role(case, client), f"{client.rival} or {client.peer}",
            loses=(ALWAYS,), **_side(case, client),
        )  # fmt: skip


def _silence(case: Case, client: Client) -> Iterator[Finding]:
    if client.silences >= SILENCES:
        yield Finding(
            "connection_silent", WARNING,
            f"{client.client_id} fell silent {client.silences} times for longer than its keep alive allows",
            "the link breaks without a word, or the client does not send its PINGREQs in time",
            case.product(client.client_id).word(KEEP_ALIVE), NETWORK, case.machine(client.client_id),
            **_side(case, client),
        )  # fmt: skip


def _role(case: Case, client: Client) -> str:
    return COLLECTOR if any(one.client_id == client.client_id for one in case.collectors) else "publisher"


def _side(case: Case, client: Client) -> dict[str, Any]:
    return {_role(case, client): client.client_id}


def _expected(case: Case) -> Iterator[Finding]:
    """Collectors that the settings declare."""
    for rule in case.gateway.collectors:
        mine = [keeper for keeper in case.collectors if case.rule(keeper.client_id) is rule]
        if not mine and not any(case.rule(name) is rule for name in case.clients):
            yield Finding(
                "collector_missing", ERROR, f"the collector {rule.name} has no session here",
                "nothing is kept for a collector before it has connected and subscribed once",
                f"connect it as {rule.client_id}", COLLECTOR, rule.name, collector=rule.name, loses=(ALWAYS,),
            )  # fmt: skip
        for keeper in mine:
            held = [split_share(name)[1] for name in keeper.subscriptions]
            missing = [name for name in rule.topics if not _covered(split_share(name)[1], held)]
            if missing and keeper.subscriptions:
                yield Finding(
                    "subscription_missing", ERROR, f"{keeper.client_id} does not hold {_some(missing)}",
                    "the settings say that it is to get these; what it does not subscribe to is not kept for it",
                    case.product(keeper.client_id).word(TOPICS), COLLECTOR, case.machine(keeper.client_id),
                    collector=keeper.client_id, loses=(ALWAYS,),
                )  # fmt: skip


def _covered(wanted: str, held: list[str]) -> bool:
    """Whether one of the filters matches all that the wanted one does."""
    sample = wanted.replace("+", "\ufffd").removesuffix("#") + ("\ufffd/\ufffd" if wanted.endswith("#") else "")
    return any(name == wanted or matches(name, sample) for name in held)


def _asked(seconds: int) -> str:
    return "no end" if seconds >= UNLIMITED_S else span(seconds)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} others"
