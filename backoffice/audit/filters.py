"""The filters of the audit trail, combined with AND. In URLs: ids and kinds, no free text."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final

from django.db import connection
from django.db.models import Q, QuerySet
from django_filters import CharFilter, ChoiceFilter

from backoffice.accounts.staff_queries import staff_choices
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import ACTION_LABELS, kind_label
from backoffice.pages.lists.fields import DeferredChoiceField, check_day_order
from backoffice.pages.lists.filters import (
    ChoicesFilter,
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    TimestampFilter,
    UUIDFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup

NOBODY: Final = "nobody"
MAX_KINDS: Final = 200

_KINDS_SQL: Final = """
WITH RECURSIVE kinds (kind, position) AS (
    (SELECT object_type, 1 FROM audit_auditentry ORDER BY object_type LIMIT 1)
    UNION ALL
    SELECT (SELECT object_type FROM audit_auditentry
            WHERE object_type > kinds.kind ORDER BY object_type LIMIT 1), position + 1
    FROM kinds WHERE kinds.kind IS NOT NULL AND position < %s
)
SELECT kind FROM kinds WHERE kind IS NOT NULL
"""


def _kind_choices() -> list[tuple[str, str]]:
    """Return every kind of record that has an entry. The query takes one index step per kind."""
    with connection.cursor() as cursor:
        cursor.execute(_KINDS_SQL, [MAX_KINDS])
        return [(kind, kind_label(kind)) for (kind,) in cursor.fetchall()]


def _person_choices() -> list[tuple[str, str]]:
    return [*staff_choices(), (NOBODY, "Nobody who is known")]


class PersonField(DeferredChoiceField):
    def valid_value(self, value: object) -> bool:
        text = str(value)
        return text == NOBODY or (text.isascii() and text.isdigit() and len(text) < 10)


class PersonFilter(DeferredChoiceFilter):
    field_class = PersonField


class AuditListForm(FilterForm):
    SORTS: ClassVar = {"at": ("at", "id")}
    DESCENDING_FIRST = frozenset({"at"})
    FILTERS: ClassVar = (
        FilterGroup("Who", ("person",), always_shown=True),
        FilterGroup("Action", ("did",), always_shown=True),
        FilterGroup("Kind", ("kind",), always_shown=True),
        FilterGroup("Date", ("day", "since", "until"), always_shown=True, shows_zone=True),
        FilterGroup("About", ("patient", "record"), always_shown=True),
        FilterGroup("Outcome", ("outcome",)),
        FilterGroup("Request", ("request",)),
    )

    def __init__(self, data: Any = None, *, user: Any) -> None:
        super().__init__(data, user=user)
        for name, read in (("person", _person_choices), ("kind", _kind_choices)):
            field = self.fields[name]
            assert isinstance(field, DeferredChoiceField)
            field.offer(cache(read))

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "since", "until")


class AuditFilterSet(ListFilterSet):
    person = PersonFilter("actor", label="Who", method="filter_person")
    did = ChoicesFilter("action", label="Action", choices=list(ACTION_LABELS.items()))
    kind = DeferredChoiceFilter("object_type", label="Kind")
    day = DaysFilter("at", label="Day")
    since = TimestampFilter("at", "gte", label="From")
    until = TimestampFilter("at", "lte", label="Until", end_of_day=True, help_text="The whole day.")
    outcome = ChoiceFilter(
        label="Outcome", empty_label="Either", choices=[("ok", "Done"), ("refused", "Refused")]
    )
    patient = UUIDFilter("patient_ids", label="Patient ID", method="filter_ids")
    record = CharFilter(
        "object_ids",
        label="Record ID",
        max_length=200,
        help_text="The whole id of an order, report, request or other record.",
        method="filter_ids",
    )
    request = CharFilter(  # type: ignore[assignment] # the metaclass takes it off the class
        "request_id",
        label="Request ID",
        max_length=64,
        help_text="As it stands in log lines and in the answer's X-Request-ID.",
    )

    class Meta:
        form = AuditListForm

    def filter_ids(
        self, entries: QuerySet[AuditEntry], name: str, key: object
    ) -> QuerySet[AuditEntry]:
        return entries.filter(**{f"{name}__contains": [key]})

    def filter_person(
        self, entries: QuerySet[AuditEntry], name: str, people: list[str]
    ) -> QuerySet[AuditEntry]:
        condition = Q(actor__in=[int(key) for key in people if key != NOBODY])
        return entries.filter(condition | Q(actor=None) if NOBODY in people else condition)
