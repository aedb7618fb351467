"""The collectors that are expected (docs/doctor.md): who they are, what they are to get, and what kind of program."""

import dataclasses
import tomllib
from typing import Final, NamedTuple, final

from gateway.core.topics import check_filter, split_share
from gateway.settings.entry import setting
from gateway.settings.http import HttpSettings
from gateway.settings.kinds import quoted

PRODUCTS: Final = ("factry", "telegraf", "ignition", "node-red", "redpanda", "other")


@final
class CollectorRule(NamedTuple):
    name: str
    client_id: str  # a pattern with * and ?
    product: str
    topics: tuple[str, ...]  # filters that it is to hold


@final
class Collectors:
    """A list of tables; as text the same in TOML, since a row holds a list."""

    allowed = (
        f"tables with name, client_id (a pattern with * and ?), product (one of {', '.join(PRODUCTS)}) and topics "
        "(a list of filters)"
    )

    def parse(self, value: object) -> list[CollectorRule]:
        if not isinstance(value, list):
            raise ValueError
        rules = [self._one(row) for row in value]
        if len({rule.name for rule in rules}) < len(rules):
            raise ValueError
        return rules

    def _one(self, row: object) -> CollectorRule:
        if not isinstance(row, dict) or not row.keys() <= {"name", "client_id", "product", "topics"}:
            raise ValueError
        name, product, topics = row.get("name"), row.get("product", "other"), row.get("topics", [])
        client_id = row.get("client_id", name)
        if not isinstance(name, str) or not name or not isinstance(client_id, str) or not client_id:
            raise ValueError
        if product not in PRODUCTS or not isinstance(topics, list):
            raise ValueError
        return CollectorRule(name, client_id, product, tuple(self._filter(topic) for topic in topics))

    def _filter(self, topic: object) -> str:
        if not isinstance(topic, str) or not check_filter(split_share(topic)[1], 0):
            raise ValueError
        return topic

    def from_text(self, text: str) -> object:
        try:
            return tomllib.loads(f"rows = {text}")["rows"] if text.strip() else []
        except tomllib.TOMLDecodeError:
            return text

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        rows = []
        for rule in value:
            assert isinstance(rule, CollectorRule)
            topics = ", ".join(quoted(topic) for topic in rule.topics)
            rows.append(
                f"{{ name = {quoted(rule.name)}, client_id = {quoted(rule.client_id)}, "
                f"product = {quoted(rule.product)}, topics = [{topics}] }}"
            )
        return "[" + ", ".join(rows) + "]"


@dataclasses.dataclass(kw_only=True, slots=True)
class CollectorSettings(HttpSettings):
    """Part of ``Settings``."""

    collector: list[CollectorRule] = setting(
        "collector",
        Collectors(),
        [],
        "Collectors that are expected, with what they are to get; forebay doctor looks for them, forebay collector add "
        "writes such a row.",
    )
