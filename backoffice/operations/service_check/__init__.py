"""The service check: is this installation connected to the service correctly?

`findings` returns the list that `manage.py checkservice` prints and System > Service check shows.
Each line is one class (`checks.py`, `webhooks.py`). All classes use the answers of the same calls
(`answers.py`). Nothing is changed at the service.
"""

from __future__ import annotations

from typing import Final

from backoffice.operations.service_check.answers import ServiceAnswers
from backoffice.operations.service_check.checks import (
    AddressCheck,
    ClockCheck,
    EnvironmentCheck,
    KeyHeaderCheck,
    ManagementKeyCheck,
    RateLimitCheck,
    TeamCheck,
    TeamKeyCheck,
)
from backoffice.operations.service_check.findings import Check, CheckFinding, FindingOutcome
from backoffice.operations.service_check.webhooks import (
    CannotSend,
    DeliveryCheck,
    EndpointCheck,
    ResentEvent,
    SecretCheck,
    listed_endpoints,
    order_to_resend,
    resend_event,
)

__all__ = [
    "CannotSend",
    "Check",
    "CheckFinding",
    "DeliveryCheck",
    "FindingOutcome",
    "ResentEvent",
    "ServiceAnswers",
    "findings",
    "listed_endpoints",
    "order_to_resend",
    "resend_event",
]

CHECKS: Final[tuple[Check, ...]] = (
    AddressCheck(),
    KeyHeaderCheck(),
    TeamKeyCheck(),
    EnvironmentCheck(),
    TeamCheck(),
    ManagementKeyCheck(),
    ClockCheck(),
    EndpointCheck(),
    SecretCheck(),
)


def findings(answers: ServiceAnswers, delivery: DeliveryCheck) -> list[CheckFinding]:
    """Run every check, in the order in which a person would fix the problems."""
    return [check.run(answers) for check in (*CHECKS, delivery, RateLimitCheck())]
