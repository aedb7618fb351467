"""The settings of the HTTP listener: metrics, health and the status page (docs/web.md)."""

import dataclasses

from gateway.settings.entry import setting
from gateway.settings.kafka import KafkaSettings
from gateway.settings.kinds import Address, Addresses, Boolean, Choice, Integer


@dataclasses.dataclass(kw_only=True, slots=True)
class HttpSettings(KafkaSettings):
    """Part of ``Settings``."""

    http_listen: list[Address] = setting(
        "http.listen",
        Addresses(),
        [],
        "HTTP listeners: status page, /metrics, /healthz, /readyz; none = no such process.",
    )
    http_listen_tls: list[Address] = setting(
        "http.listen_tls", Addresses(), [], "The same over HTTPS, with tls.cert and tls.key."
    )
    http_login: str = setting(
        "http.login",
        Choice("auto", "always"),
        "auto",
        'Who must log in to the status page: "auto" = all but browsers on this machine that use a loopback listener.',
    )
    http_metrics_open: bool = setting(
        "http.metrics_open",
        Boolean(),
        False,
        "GET /metrics for anybody; false = where the status page needs a login, so do metrics (HTTP Basic).",
    )
    http_session_metrics: int = setting(
        "http.session_metrics",
        Integer(0, 1000),
        100,
        "Sessions that have gauges of their own in /metrics, those with the longest queues.",
    )
