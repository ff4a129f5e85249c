"""The first-run check: is this installation connected to the service as it should be?

`findings` gives the list that `manage.py checkservice` prints and System > Service check shows:
one class for each line (`checks.py`, `webhooks.py`), over the answers of one round of calls
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
from backoffice.operations.service_check.findings import Check, Finding, Outcome
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
    "DeliveryCheck",
    "Finding",
    "Outcome",
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


def findings(answers: ServiceAnswers, delivery: DeliveryCheck) -> list[Finding]:
    """Run every check, in the order in which a person would mend what is wrong."""
    return [check.run(answers) for check in (*CHECKS, delivery, RateLimitCheck())]
