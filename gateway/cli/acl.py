"""``forebay acl``: who may publish and subscribe where."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gateway.access import Access
from gateway.cli.options import ConfigOption, DataDirOption, UsageError, settings_from
from gateway.cli.status import JsonOption
from gateway.cli.telling import tell_broker
from gateway.core.acl import READ, ROLES, WRITE, Rights, Rule, expand
from gateway.core.topics import check_filter, split_share
from gateway.settings.rule_kinds import ACCESS, AclRules
from gateway.settings.table import Settings

app = typer.Typer(
    help="Rules of who may publish and subscribe where. A running broker takes changes over at once.",
    no_args_is_help=True,
)

UserOption = Annotated[str, typer.Option("--user", help="Only this user; * and ? stand for others.")]
ClientOption = Annotated[str, typer.Option("--client-id", help="Only this client id; * and ? stand for others.")]
RoleOption = Annotated[str, typer.Option("--role", help="Only users with this role.")]
_KIND = AclRules()


@app.command()
def allow(
    access: str,
    topic: str,
    user: UserOption = "",
    client_id: ClientOption = "",
    role: RoleOption = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Allow ACCESS (read, write, readwrite) to TOPIC, a filter in which %u and %c stand for user and client id."""
    _add(settings_from(config, data_dir), _rule("allow", access, topic, user, client_id, role))


@app.command()
def deny(
    access: str,
    topic: str,
    user: UserOption = "",
    client_id: ClientOption = "",
    role: RoleOption = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Deny ACCESS (read, write, readwrite) to TOPIC, whatever else allows it."""
    _add(settings_from(config, data_dir), _rule("deny", access, topic, user, client_id, role))


@app.command("list")
def list_rules(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List the rules: those of the settings file, those made here with their numbers, and those of the roles."""
    settings = settings_from(config, data_dir)
    rows = _rows(settings, Access(settings.access_file))
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("number", "from", "rule", "topic", "user", "client id", "role"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        rule = f"allow {row['allow']}" if "allow" in row else f"deny {row['deny']}"
        cells = [row.get(name, "") for name in ("username", "client_id", "role")]
        table.add_row(str(row.get("number", "")), str(row["from"]), rule, str(row["topic"]), *map(str, cells))
    Console(highlight=False, markup=False).print(table)


@app.command()
def remove(number: int, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Remove a rule by its number in the list."""
    settings = settings_from(config, data_dir)
    access = Access(settings.access_file)
    with access.change():
        if not 1 <= number <= len(access.rules):
            raise UsageError(f"{number}: expected the number of a rule in forebay acl list")
        rule = access.rules.pop(number - 1)
    typer.echo(f"{_KIND.show_one(rule)}: removed")
    tell_broker(settings)


@app.command()
def check(
    access: str,
    topic: str,
    user: Annotated[str, typer.Option("--user", help="The user; none = without a name.")] = "",
    client_id: Annotated[str, typer.Option("--client-id", help="The client id.")] = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether a client may read or write TOPIC (to read: a filter), and by which rule: exit code 0, or 1."""
    settings = settings_from(config, data_dir)
    if access not in ("read", "write"):
        raise UsageError(f"{access}: expected read or write")
    try:
        share, plain = split_share(topic)
    except ValueError:
        plain = ""
    if not check_filter(plain, 0) or (access == "write" and (share or "+" in plain or "#" in plain)):
        raise UsageError(f"{topic}: expected {'a topic' if access == 'write' else 'a topic filter'}")
    acl = Access(settings.access_file).acl(settings.acl)
    rights = None if acl is None else acl.of(user, client_id)
    rules = [] if acl is None else acl.rules_of(user, client_id)
    if rights is None:
        may, why = True, "no rule holds for this client"
    else:
        may = rights.may_write(plain) if access == "write" else rights.may_subscribe(plain, share != "")
        why = _why(rules, user, client_id, ACCESS[access], plain, share != "", may)
    if as_json:
        typer.echo(json.dumps({"allowed": may, "why": why}, ensure_ascii=False))
    else:
        typer.echo(f"{'allowed' if may else 'denied'}: {why}")
    raise typer.Exit(0 if may else 1)


def _rule(word: str, access: str, topic: str, user: str, client_id: str, role: str) -> Rule:
    if access not in ACCESS:
        raise UsageError(f"{access}: expected read, write or readwrite")
    try:
        return _KIND.one({word: access, "topic": topic, "username": user, "client_id": client_id, "role": role})
    except ValueError:
        raise UsageError(f"{topic}: expected a topic filter without $share") from None


def _add(settings: Settings, rule: Rule) -> None:
    access = Access(settings.access_file)
    with access.change():
        if rule not in access.rules:
            access.rules.append(rule)
    typer.echo(_KIND.show_one(rule))
    tell_broker(settings)


def _rows(settings: Settings, access: Access) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [{"from": "settings", **_KIND.row(rule)} for rule in settings.acl]
    rows += [{"number": n, "from": "acl", **_KIND.row(rule)} for n, rule in enumerate(access.rules, 1)]
    for role, rules in ROLES.items():
        rows += [{"from": "role", **_KIND.row(rule), "role": role} for rule in rules]
    return rows


def _why(rules: list[Rule], user: str, client_id: str, access: int, topic: str, shared: bool, may: bool) -> str:
    """The rule that decides."""
    for rule in rules:
        if rule.allow == may and rule.access & access and expand(rule.topic, user, client_id):
            all_else = [] if may else [Rule(True, READ | WRITE, topic)]
            rights = Rights(user, client_id, [*all_else, rule])
            decides = rights.may_write(topic) if access == WRITE else rights.may_subscribe(topic, shared)
            if decides == may:
                return _KIND.show_one(rule)
    return "no rule allows it"
