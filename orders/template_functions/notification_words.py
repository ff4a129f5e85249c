"""Labels of the records that notifications are about, for the pages of `team`.

The package `team` does not import `orders`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from django.utils.translation import gettext
from jinja2 import pass_context
from jinja2.runtime import Context

from backoffice.accounts.access import may
from backoffice.core.prepared_queries import by_key
from backoffice.outbox.models import CommandRecord
from backoffice.pages.formats import initials
from orders.models import Order
from patients.models import Patient

ORDER_SUBJECTS: Final = ("order", "result")


@pass_context
def record_labels(context: Context, groups: Iterable[Any]) -> dict[tuple[str, str], str]:
    """Return the labels of the records by (type, id): one query for each type.

    Names are included only for users who may see them.
    """
    keys: dict[str, set[str]] = {}
    for group in groups:
        keys.setdefault(group.subject_type, set()).add(group.subject_id)
    by_name = may(context["request"].user, "patients.view")
    labels: dict[tuple[str, str], str] = {}
    for kind in ORDER_SUBJECTS:
        for order in Order.objects.with_list_columns().filter(pk__in=_ids(keys.get(kind, ()))):
            name = f"{order.patient_first_name} {order.patient_last_name}".strip()
            label = name if by_name else initials(name)
            labels[kind, str(order.pk)] = ", ".join(filter(None, [order.lab_test_name, label]))
    if by_name:
        people = by_key(Patient, _ids(keys.get("patient", ())), ("first_name", "last_name"))
        for patient in people.values():
            if patient.full_name:
                labels["patient", str(patient.pk)] = patient.full_name
    rows = CommandRecord.objects.filter(pk__in=_ids(keys.get("command", ())))
    for pk, title in rows.values_list("pk", "title"):
        labels["command", str(pk)] = gettext(title)
    return labels


def record_label(records: dict[tuple[str, str], str], group: Any) -> str:
    words = records.get((group.subject_type, group.subject_id))
    return words or f"{gettext(group.word).capitalize()} {group.subject_id[:8]}"


def _ids(keys: Iterable[str]) -> list[UUID]:
    ids = []
    for key in keys:
        try:
            ids.append(UUID(key))
        except ValueError:
            continue
    return ids
