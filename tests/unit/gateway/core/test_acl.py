"""Who may do what: the rules alone, and what the broker makes of them."""

import itertools

import pytest

from gateway.core.acl import READ, ROLES, WRITE, Acl, Rights, Rule, covers, expand, overlap
from gateway.core.limits import ClientRule
from gateway.core.topics import matches
from tests.conformance.client import Client
from tests.core_rig import broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker

BOTH = READ | WRITE


def rights(*rules: Rule, username: str = "u", client_id: str = "c") -> Rights:
    return Rights(username, client_id, list(rules))


# the rules


@pytest.mark.parametrize(
    ("outer", "inner", "covered"),
    [
        ("a/b", "a/b", True),
        ("a/+", "a/b", True),
        ("a/+", "a/+", True),
        ("a/+", "a/#", False),
        ("a/#", "a", True),
        ("a/#", "a/#", True),
        ("a/#", "a/+/c", True),
        ("a/b", "a/+", False),
        ("+/b", "#", False),
        ("#", "#", True),
        ("+/+", "+", False),
        ("#", "$SYS/#", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/broker/+", True),
        ("$SYS/#", "#", False),
    ],
)
def test_one_filter_covers_another(outer: str, inner: str, covered: bool) -> None:
    assert covers(outer, inner) is covered


def test_covers_and_overlap_agree_with_what_filters_match() -> None:
    levels = ["a", "b", "$s"]
    topics = ["/".join(made) for n in (1, 2, 3) for made in itertools.product(levels, repeat=n)]
    parts = ["a", "b", "+", "$s"]
    filters = ["/".join(made) for n in (1, 2) for made in itertools.product(parts, repeat=n)]
    filters += ["#", *[f"{filter}/#" for filter in filters]]
    for one, other in itertools.product(filters, repeat=2):
        of_one = {topic for topic in topics if matches(one, topic)}
        of_other = {topic for topic in topics if matches(other, topic)}
        assert overlap(one, other) == bool(of_one & of_other), (one, other)
        if covers(one, other):
            assert of_other <= of_one, (one, other)
        elif "#" not in one + other and "+" not in other:
            assert not of_other <= of_one, (one, other)


@pytest.mark.parametrize(
    ("topic", "username", "client_id", "filter"),
    [
        ("plant/%u/#", "anna", "c", "plant/anna/#"),
        ("dev-%c/x%u", "u", "7", "dev-7/xu"),
        ("%c", "", "c", "c"),
        ("100%/%x", "u", "c", "100%/%x"),
        ("%u/#", "%c", "c", "%c/#"),
        ("%u/#", "", "c", ""),
        ("%u/#", "#", "c", ""),
        ("%c/#", "u", "a/b", ""),
        ("%c/#", "u", "+", ""),
        ("%u/#", "$SYS", "c", ""),
    ],
)
def test_names_stand_for_one_level_and_nothing_more(topic: str, username: str, client_id: str, filter: str) -> None:
    assert expand(topic, username, client_id) == filter


def test_what_no_rule_allows_is_denied_and_reading_is_not_writing() -> None:
    made = rights(Rule(True, READ, "a/#"), Rule(True, WRITE, "b/%u"))
    assert made.may_subscribe("a/+", False)
    assert not made.may_write("a/x")
    assert made.may_write("b/u")
    assert not made.may_read("b/u")
    assert not made.may_subscribe("#", False)


def test_a_denial_wins_wherever_it_stands() -> None:
    rules = [Rule(True, BOTH, "#"), Rule(False, BOTH, "secret/#")]
    for made in (rights(*rules), rights(*reversed(rules))):
        assert not made.may_write("secret/x")
        assert not made.may_subscribe("secret/+", False)
        assert made.may_subscribe("#", False)
        assert made.withholds("secret/x")
        assert not made.withholds("open/x")
        assert not made.may_subscribe("#", True), "members of a group may differ"
        assert made.may_subscribe("open/#", True)


def test_a_name_that_fits_no_level_gets_nothing() -> None:
    made = rights(Rule(True, BOTH, "plant/%c/#"), client_id="#")
    assert not made.may_write("plant/x")
    assert not made.may_subscribe("plant/#/#", False)


def test_topics_that_stand_for_others() -> None:
    made = rights(Rule(True, WRITE, "a/#"), Rule(True, READ, "spBv1.0/G/#"))
    assert made.may_write("$delayed/60/a/b")
    assert not made.may_write("$delayed/60/b")
    assert not made.may_write("$delayed/60")
    assert made.may_subscribe("$sparkplug/certificates/spBv1.0/G/NBIRTH/+", False)
    assert not made.may_subscribe("$sparkplug/certificates/#", False)
    hidden = rights(Rule(True, READ, "$sparkplug/#"), Rule(False, READ, "spBv1.0/G/#"))
    assert not hidden.may_read("$sparkplug/certificates/spBv1.0/G/NBIRTH/E")


def test_whom_a_rule_is_for() -> None:
    acl = Acl(
        [],
        [
            Rule(True, READ, "user", username="anna"),
            Rule(True, READ, "users", username="an*"),
            Rule(True, READ, "client", client_id="c-?"),
            Rule(True, READ, "role", role="packer"),
        ],
        {"berta": "packer"},
    )

    def topics(username: str, client_id: str) -> list[str]:
        return sorted(rule.topic for rule in acl.rules_of(username, client_id))

    assert topics("anna", "x") == ["user", "users"]
    assert topics("andy", "c-1") == ["client", "users"]
    assert topics("berta", "x") == ["role"]
    assert topics("", "c-1") == ["client"]
    assert topics("", "x") == []
    assert acl.of("", "x") is None
    assert acl.of("carl", "x") is None
    assert acl.of("anna", "x") is not None


def test_a_role_without_rules_allows_nothing_and_general_rules_hold_for_all() -> None:
    held = Acl([], [], {"anna": "nosuch"}).of("anna", "x")
    assert held is not None
    assert not held.may_write("a")
    everybody = Acl([Rule(True, READ, "a", username="carl")], [], {}).of("", "x")
    assert everybody is not None
    assert not everybody.may_read("a")


def test_the_roles() -> None:
    def of(role: str) -> Rights:
        return Rights("anna", "c1", ROLES[role])

    device, application, operator = of("device"), of("application"), of("operator")
    for topic in ("plant/1/temperature", "spBv1.0/G/NBIRTH/E", "spBv1.0/G/DDATA/E/D"):
        assert device.may_write(topic)
        assert not application.may_write(topic)
        assert operator.may_write(topic)
        assert not device.may_read(topic)
        assert application.may_read(topic)
        assert operator.may_read(topic)
    for topic in ("spBv1.0/G/NCMD/E", "spBv1.0/G/DCMD/E/D", "spBv1.0/STATE/host", "STATE/host"):
        assert not device.may_write(topic)
        assert device.may_read(topic)
        assert operator.may_write(topic)
    assert device.may_subscribe("cmd/anna/#", False)
    assert device.may_subscribe("c1/+", False)
    assert not device.may_subscribe("cmd/berta/#", False)
    assert not device.may_subscribe("#", False)
    assert application.may_subscribe("#", True)
    for filter in ("$SYS/#", "$sparkplug/certificates/#"):
        assert not device.may_subscribe(filter, False)
        assert operator.may_subscribe(filter, False)
    assert not application.may_subscribe("$SYS/#", False)


# the broker


GENERAL = [Rule(True, BOTH, "open/#"), Rule(True, READ, "in/%u"), Rule(True, WRITE, "out/%c"), Rule(True, BOTH, "x/#")]


def guarded(*more: Rule, roles: dict[str, str] | None = None) -> MemoryBroker:
    return broker(acl=Acl([*GENERAL, *more], [], roles or {}))


@pytest.mark.parametrize("version", [4, 5])
def test_a_filter_is_refused_alone(version: int) -> None:
    b = guarded()
    client = connect(b, "c", version=version, username="anna")
    refused = 0x87 if version == 5 else 0x80
    filters = ["open/#", "out/c", "in/anna", "in/berta", "#", "$share/g/open/+", "$share/g/out/#", "$SYS/#"]
    assert client.subscribe(*filters, qos=1) == [1, refused, 1, refused, refused, 1, refused, refused]
    assert list(session_of(b, "c").subscriptions) == ["open/#", "in/anna", "$share/g/open/+"]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_denied_publish_goes_nowhere_and_is_counted(version: int, qos: int) -> None:
    b = guarded()
    reader = connect(b, "r", username="r")
    client = connect(b, "c", version=version)
    core_of(b).limits.acl = None
    everything = connect(b, "all")
    assert everything.subscribe("#", qos=2) == [2]
    answers = [client.put("in/anna", b"1", qos, retain=True) for _ in range(2)]
    if qos:
        assert [answer.reason for answer in answers] == [0x87 if version == 5 else 0] * 2
    client.put("out/c", b"2", qos)
    assert [got.payload for got in everything.take_all()] == [b"2"]
    assert core_of(b).ledger.drops(0) == {"acl": 2}
    assert core_of(b).retained.get("in/anna") is None
    assert core_of(b).log == ["c: may not publish on in/anna"], "once for the topic, not for each message"
    reader.disconnect()


def test_others_may_publish_where_one_may_not() -> None:
    b = guarded(Rule(True, BOTH, "#", username="boss"))
    boss = connect(b, "b", username="boss")
    other = connect(b, "o", username="other")
    boss.subscribe("closed/t", qos=1)
    assert boss.put("closed/t", b"1").reason == 0
    assert other.put("closed/t", b"2").reason == 0x87
    assert boss.put("closed/t", b"3").reason == 0
    assert [got.payload for got in boss.take_all()] == [b"1", b"3"]


def test_what_is_denied_within_a_subscription_is_left_out() -> None:
    b = guarded(Rule(False, READ, "open/secret/#", username="anna"))
    anna, berta = connect(b, "a", username="anna"), connect(b, "b", username="berta")
    berta.put("open/secret/kept", b"r", retain=True)
    berta.put("open/kept", b"r", retain=True)
    for client in (anna, berta):
        assert client.subscribe("open/#", qos=1) == [1]
    berta.put("open/secret/x", b"1")
    berta.put("open/x", b"2")
    assert sorted(got.topic for got in anna.take_all()) == ["open/kept", "open/x"]
    assert sorted(got.topic for got in berta.take_all()) == ["open/kept", "open/secret/kept", "open/secret/x", "open/x"]


@pytest.mark.parametrize(("version", "reason"), [(4, 5), (5, 0x87)])
def test_a_will_that_may_not_be_published_is_refused_at_connect(version: int, reason: int) -> None:
    b = guarded()

    client = Client(b.open(), version)
    client.send_connect("c", will=("in/anna", b"w", 0, False))
    client.expect_refused(reason)
    connect(b, "c", will=("out/c", b"w", 0, False))


def test_a_will_that_is_no_longer_allowed_is_not_published() -> None:
    b = guarded()
    reader = connect(b, "r", username="boss")
    reader.subscribe("x/#", qos=1)
    dying = connect(b, "c", will=("x/w", b"w", 1, False))
    b.limits.acl = Acl([Rule(True, READ, "#")], [], {})
    b.router.reload(b.limits, b.now)
    b.pump()
    dying.drop()
    assert reader.take_all() == []
    assert core_of(b).ledger.drops(0) == {"acl": 1}


@pytest.mark.parametrize("crash", [False, True], ids=["live", "over a restart"])
def test_subscriptions_that_lose_their_right_end(crash: bool) -> None:
    b = guarded()
    client = connect(b, "c", username="anna")
    client.subscribe("open/#", "in/anna", "$share/g/open/#", qos=1)
    b.limits.acl = Acl([Rule(True, READ, "in/#"), Rule(True, WRITE, "#")], [], {})
    if crash:
        b.crash()
    else:
        b.router.reload(b.limits, b.now)
        b.pump()
    assert list(session_of(b, "c").subscriptions) == ["in/anna"]
    assert core_of(b).groups == {}
    (line,) = [line for line in b.router.take_alarms() if "no longer allowed" in line]
    assert line == "c: no longer allowed and ended: its subscription to open/#, $share/g/open/#"
    b.crash()
    assert list(session_of(b, "c").subscriptions) == ["in/anna"]
    again = connect(b, "c", username="anna")
    fill(b, "in/anna", 1)
    fill(b, "open/x", 1)
    assert [got.topic for got in again.take_all()] == ["in/anna"]


def test_rights_go_on_while_the_client_is_away() -> None:
    b = guarded(Rule(False, READ, "open/secret", username="anna"))
    client = connect(b, "c", username="anna")
    client.subscribe("open/#", qos=1)
    client.drop()
    b.crash()
    writer = connect(b, "w", username="w")
    writer.put("open/secret", b"1")
    writer.put("open/x", b"2")
    assert [got.payload for got in connect(b, "c", username="anna").take_all()] == [b"2"]


def test_the_session_of_another_user_is_not_taken_over() -> None:

    b = guarded()
    mine = connect(b, "c", username="anna")
    mine.subscribe("open/#", qos=1)
    thief = Client(b.open(), 5)
    thief.send_connect("c", username="berta", clean=True)
    thief.expect_refused(0x87)
    mine.ping()
    mine.drop()
    assert connect(b, "c", username="anna").connack.session_present


def test_a_session_of_nobody_is_and_keeps_what_its_new_user_may_have() -> None:
    b = broker()
    before = connect(b, "c")
    before.subscribe("open/#", "closed/#", qos=1)
    before.drop()
    b.limits.acl = Acl([], [Rule(True, READ, "open/#", username="anna")], {})
    b.router.reload(b.limits, b.now)
    assert connect(b, "c", username="anna").connack.session_present
    assert list(session_of(b, "c").subscriptions) == ["open/#"]


def test_nothing_is_asked_without_rules() -> None:
    b = broker()
    connect(b, "c", username="anna")
    assert session_of(b, "c").rights is None


def test_what_was_counted_of_the_time_before_is_what_is_read() -> None:
    """A collector that begins with the earliest: what it may not read is not owed to it either."""

    rule = ClientRule("late", "", True, earliest=1)
    b = broker(
        acl=Acl([Rule(True, BOTH, "#"), Rule(False, READ, "open/secret", client_id="late")], [], {}),
        client_types=[rule],
        log_keep_bytes=1 << 20,
    )
    keeper = connect(b, "keeper")
    keeper.subscribe("#", qos=1)
    keeper.drop()
    fill(b, "open/secret", 3)
    fill(b, "open/x", 2)
    late = connect(b, "late")
    late.subscribe("open/#", qos=1)
    assert [got.topic for got in late.take_all()] == ["open/x", "open/x"]
    row = b.router.session("late", b.now)
    assert row is not None
    assert (row["queue_messages"], row["matched"], row["acknowledged"]) == (0, 2, 2)
