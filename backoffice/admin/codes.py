"""Names of codes: a code never stands alone, but as `Active (active)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


NameReaders = Mapping[str, Callable[[], Mapping[str, str]]]
"""By column with codes that have names in a table: a function that reads the names."""


class CodeNames:
    """The names of the codes of a model for one page, which reads each table once."""

    def __init__(self, model: type[Model], readers: NameReaders) -> None:
        self._model = model
        self._readers = readers
        self._names: dict[str, Mapping[str, str]] = {}

    def named(self, column: object, value: object) -> object:
        """Return the text of a column with codes with its name; all other values unchanged."""
        if type(value) is not str:
            return value
        if isinstance(column, str) and column in self._readers:
            if column not in self._names:
                self._names[column] = self._readers[column]()
            return _with_code(self._names[column].get(value, ""), value)
        key = f"{self._model._meta.label_lower}.{column}"
        if key == "orders.order.bucket":
            return _with_code(gettext(vocabulary.BUCKETS.get(value, "")), value)
        if key not in VOCABULARIES:
            return value
        return _with_code(gettext(vocabulary.term(VOCABULARIES[key], value).label), value)


def _with_code(name: str, code: str) -> str:
    """Return `Lab East (lab-east)`; only the code if it has no name of its own."""
    if not name or name == code:
        return code
    return name if name.endswith(f": {code}") else f"{name} ({code})"
