"""Names of codes in the lists: a code never stands alone, but as `Active (active)`."""

from __future__ import annotations

from typing import Final

from django.db.models import Model
from django.utils.translation import gettext

from backoffice.core import vocabulary

VOCABULARIES: Final = {
    "labs.labaccount.delegated_flow": "lab_account.delegated_flow",
    "labs.labaccount.status": "lab_account.status",
    "labs.labtest.method": "order.method",
    "labs.labtest.status": "lab_test.status",
    "labs.marker.type": "marker.type",
    "labs.reportjob.state": "report.state",
    "orders.appointment.status": "appointment.status",
    "orders.appointment.type": "appointment.type",
    "orders.order.low_level_status": "order.low_level_status",
    "orders.result.interpretation": "result.interpretation",
    "orders.result.status": "result.status",
    "orders.transaction.status": "transaction.status",
    "orders.unmatchedresult.status": "unmatched.status",
    "patients.connection.error_type": "connection.error_type",
    "patients.connection.status": "connection.status",
    "patients.historicalpull.resource": "wearable.resource",
    "patients.historicalpull.status": "historical_pull.status",
    "patients.payor.source": "payor.source",
    "patients.summary.resource": "wearable.resource",
}
"""The vocabulary of each column that has one."""


def named(model: type[Model], column: object, value: str) -> str:
    """Return a value with its name if the column has a vocabulary; other values unchanged."""
    key = f"{model._meta.label_lower}.{column}"
    if key == "orders.order.bucket":
        return with_code(gettext(vocabulary.BUCKETS.get(value, "")), value)
    if key not in VOCABULARIES:
        return value
    return with_code(gettext(vocabulary.term(VOCABULARIES[key], value).label), value)


def with_code(name: str, code: str) -> str:
    """Return `Lab East (lab-east)`; only the code if it has no name of its own."""
    if not name or name == code:
        return code
    return name if name.endswith(f": {code}") else f"{name} ({code})"
