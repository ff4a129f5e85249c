"""The inputs of the page with all components, which shows developers every macro."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar, Final
from uuid import UUID

from django import forms
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column
from backoffice.pages.lists.fields import OpenVocabularyField, TimestampField
from backoffice.pages.lists.forms import SIZES, FilterForm, FilterGroup
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.pages import Page
from backoffice.pages.tabs import Tab

_COLUMNS: Final = (
    Column("name", "Name", sort="name"),
    Column("born", "Born", sort="born"),
    Column("note", "Note"),
)


class ExampleFilters(FilterForm):
    """A filter row with a filter of each kind."""

    SORTS: ClassVar = {"name": ("name",), "born": ("born",)}
    DESCENDING_FIRST = frozenset({"born"})
    FILTERS: ClassVar = (
        FilterGroup("Status", ("status",), always_shown=True),
        FilterGroup("Ordered", ("since",), always_shown=True, shows_zone=True),
        FilterGroup("Name", ("name",)),
    )

    status = OpenVocabularyField("order.method", label="Method")
    since = TimestampField(label="From")
    name = forms.CharField(label="Name", required=False, help_text="The beginning is enough.")


def component_context() -> dict[str, Any]:
    """Return the inputs of the macros on the page."""
    form = ExampleFilters(
        {"status": ["testkit", "by_drone"], "since": "nonsense"}, user=AnonymousUser()
    )
    form.is_valid()
    now = timezone.now()
    return {
        "form": form,
        "now": now,
        "moment": now - timedelta(hours=30),
        "zone": timezone.get_current_timezone(),
        "today": timezone.localdate(now),
        "summer": datetime(2025, 7, 4, 2, 0, tzinfo=UTC),
        "born": date(1984, 2, 29),
        "key": UUID(int=7 << 96),
        "record": SimpleNamespace(as_of=now - timedelta(hours=2), missing_since=now),
        "order": SimpleNamespace(
            patient_first_name="Ada", patient_last_name="Sample", patient_name="ada sample",
            patient_dob=date(1984, 2, 29), patient_gender="female", method="testkit",
            patient_full_name="Ada Sample", lab_test_name="Liver Screen", pk=UUID(int=7 << 96),
        ),
        "patient": SimpleNamespace(first_name="Ada", last_name="Sample", pk=UUID(int=7 << 96)),
        "columns": _COLUMNS,
        "list": SimpleNamespace(
            form=form, sort="name", direction="asc", falling=form.DESCENDING_FIRST,
            sizes=SIZES, size=50,
        ),
        "pager": {
            "page": Page(rows=["row"], previous="cursor", next=None),
            "first": 51, "last": 1_100, "next_at": 1_101, "previous_at": 1,
            "total": Count(1_100, capped=True), "noun": "orders",
        },
        "tabs": [
            Tab(label, f"?bucket={key}", key == vocabulary.NEEDS_ACTION, Count(12), key,
                vocabulary.GLYPHS[key])
            for key, label in vocabulary.BUCKETS.items()
        ],
    }  # fmt: skip
