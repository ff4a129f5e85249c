"""The filters of the audit trail, combined with AND. In URLs: ids and kinds, no free text."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db.models import QuerySet
from django_filters import CharFilter, ChoiceFilter

from backoffice.accounts.staff_queries import staff_choices
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import ACTION_LABELS, kind_label
from backoffice.core.distinct_values import distinct_values
from backoffice.pages.lists.filters import (
    ChoicesFilter,
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    PersonFilter,
    TimestampFilter,
    UUIDFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup

NOBODY: Final = "nobody"
MAX_KINDS: Final = 200


def _kind_choices() -> list[tuple[str, str]]:
    """Return every kind of record that has an entry."""
    return [
        (kind, kind_label(kind)) for kind in distinct_values(AuditEntry, "object_type", MAX_KINDS)
    ]


def _person_choices() -> list[tuple[str, str]]:
    return [*staff_choices(), (NOBODY, "Nobody who is known")]


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


class AuditFilterSet(ListFilterSet):
    person = PersonFilter("actor", label="Who", nobody=NOBODY, read=_person_choices)
    did = ChoicesFilter("action", label="Action", choices=list(ACTION_LABELS.items()))
    kind = DeferredChoiceFilter("object_type", label="Kind", read=_kind_choices)
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
