"""Filters that the lists of sync runs, differences and unread records share."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, ClassVar

from django import forms
from django.db import connection
from django.db.models import Model, QuerySet

from backoffice.pages.formats import list_name
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    TimestampField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm

LIST_FILTER = Filter("List", ("resource",), always_shown=True)
DATE_FILTER = Filter("Date", ("day", "since", "until"), always_shown=True, shows_zone=True)


class MirrorFilters(FilterForm):
    """Filter by list of the service and by time."""

    resource = DeferredChoiceField(
        required=False, label="List", widget=forms.CheckboxSelectMultiple
    )
    day = DaysField("", label="Day")
    since = TimestampField(label="From")
    until = TimestampField(label="Until", end_of_day=True, help_text="The whole day.")

    MODEL: ClassVar[type[Model]]
    TIME: ClassVar[str]
    """The column that the dates filter."""

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        resource = self.fields["resource"]
        assert isinstance(resource, DeferredChoiceField)
        resource.offer(cache(partial(_resource_choices, self.MODEL._meta.db_table)))

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "since", "until")

    def apply(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        filters = self.cleaned_data
        if filters["resource"]:
            rows = rows.filter(resource__in=filters["resource"])
        first, after = filters["day"] or (None, None)
        for condition, moment in (
            ("gte", first),
            ("lt", after),
            ("gte", filters["since"]),
            ("lte", filters["until"]),
        ):
            if moment:
                rows = rows.filter(**{f"{self.TIME}__{condition}": moment})
        return rows


class RecordKeyField(forms.CharField):
    """The whole ID of a record."""

    def __init__(self) -> None:
        super().__init__(
            required=False,
            max_length=200,
            label="Record ID",
            help_text="The whole ID, as the list shows it.",
        )


def _resource_choices(table: str) -> list[tuple[str, str]]:
    """Return the lists that occur in a table. The query takes one index step per list."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH RECURSIVE names (name) AS (
                (SELECT resource FROM {table} ORDER BY resource LIMIT 1)
                UNION ALL
                SELECT (SELECT resource FROM {table}
                        WHERE resource > names.name ORDER BY resource LIMIT 1)
                FROM names WHERE names.name IS NOT NULL
            )
            SELECT name FROM names WHERE name IS NOT NULL
            """  # noqa: S608 - our names
        )
        return sorted(((name, list_name(name)) for (name,) in cursor), key=lambda pair: pair[1])
