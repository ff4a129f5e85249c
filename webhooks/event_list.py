"""The event log (System > Events): its columns, tabs and download."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final

from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.paging.counts import COUNT_CAP, Count, capped_count
from backoffice.pages.paging.pages import Page, PagePosition, fetch_page, page_start
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab
from webhooks import event_log, silence
from webhooks.event_list_rows import EventRow, event_rows
from webhooks.event_log import MAX_ID
from webhooks.filters import TABS, EventFilterSet
from webhooks.models import Event, EventQuerySet


def _seconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration.total_seconds())


COLUMNS: Final = (
    Column(
        "type",
        gettext_noop("Type"),
        (
            ExportCell(gettext_noop("Event"), lambda row: row.event.pk),
            ExportCell(gettext_noop("Type"), lambda row: row.event.event_type),
        ),
    ),
    Column(
        "outcome",
        gettext_noop("Outcome"),
        (
            ExportCell(gettext_noop("State"), lambda row: row.event.state),
            ExportCell(gettext_noop("Outcome"), lambda row: gettext(row.term.label)),
            ExportCell(gettext_noop("Reason"), lambda row: row.event.reason),
            ExportCell(gettext_noop("Field"), lambda row: row.event.path),
            ExportCell(
                gettext_noop("Received again with different content"),
                lambda row: row.event.body_conflict,
            ),
        ),
    ),
    Column(
        "patient",
        gettext_noop("Patient"),
        (
            ExportCell(gettext_noop("Patient"), lambda row: row.event.user_id),
            ExportCell(gettext_noop("Name"), lambda row: row.name),
        ),
        cell_css="nowrap",
    ),
    Column(
        "about",
        gettext_noop("About"),
        (ExportCell(gettext_noop("About"), lambda row: row.event.subject_id),),
        cell_css="nowrap",
    ),
    Column(
        "happened",
        gettext_noop("Happened"),
        (ExportCell(gettext_noop("Happened"), lambda row: row.happened_at, is_timestamp=True),),
        cell_css="nowrap",
    ),
    Column(
        "received",
        gettext_noop("Received"),
        (
            ExportCell(
                gettext_noop("Received"), lambda row: row.event.received_at, is_timestamp=True
            ),
        ),
        sort="received",
        cell_css="nowrap",
    ),
    Column(
        "delay",
        gettext_noop("Delay"),
        (ExportCell(gettext_noop("Delay in seconds"), lambda row: _seconds(row.delay)),),
        css="num",
        cell_css="num nowrap",
    ),
    Column(
        "handled",
        gettext_noop("Processed in"),
        (
            ExportCell(
                gettext_noop("Processing time in seconds"),
                lambda row: _seconds(row.processing_time),
            ),
        ),
        css="num",
        macro="handled_in",
        cell_css="num nowrap",
    ),
    Column(
        "attempts",
        gettext_noop("Attempts"),
        (
            ExportCell(gettext_noop("Attempts"), lambda row: row.attempts),
            ExportCell(gettext_noop("Deliveries"), lambda row: row.event.deliveries),
        ),
        css="num",
        cell_css="num",
    ),
    Column(
        "message",
        gettext_noop("Message"),
        (ExportCell(gettext_noop("Message"), lambda row: row.event.message_id),),
        shown=False,
        cell_css="nowrap",
    ),
)


@dataclass(frozen=True, slots=True)
class EventRowContext:
    """What the rows of events show to a user."""

    by_name: bool
    sees_orders: bool


class EventList(ListPage):
    name = "events"
    title = gettext_noop("Events")
    template = "webhooks/list.html"
    subject = "event"
    nouns = (gettext_noop("event"), gettext_noop("events"))
    patient_column = "user_id"
    needs = ("events.view",)
    columns = COLUMNS
    row_macros = "webhooks/event_rows.html"
    filter_set = EventFilterSet
    presets: ClassVar = (
        Preset(
            "orders",
            gettext_noop("Orders and visits"),
            {"type": ["labtest.order", "labtest.appointment"]},
        ),
        Preset("critical", gettext_noop("Critical results"), {"type": ["labtest.result"]}),
        Preset(
            "conflict", gettext_noop("Received again with different content"), {"conflict": ["on"]}
        ),
    )

    def visible_rows(self, user: Any) -> EventQuerySet:
        return Event.objects.for_list()

    def count_and_page(
        self, filters: Any, size: int, place: PagePosition, number: int | None = None
    ) -> tuple[Count, Page[Event]]:
        """Return how many events match valid filters, and a page of them.

        `first_of_types` finds those of several types.
        """
        if not filters.is_long_list_of_types():
            return super().count_and_page(filters, size, place, number)
        rows, sort = filters.of_any_type(), self.sort_for(filters)
        count = capped_count(rows.first_of_types(filters.types, filters.ids, COUNT_CAP + 1))
        cursor, descending = page_start(rows, sort, **place)
        low, high = filters.ids
        if cursor is not None and descending:
            high = max(min(high, cursor[0]), 0)
        elif cursor is not None:
            low = min(max(low, cursor[0]), MAX_ID)
        rows = rows.first_of_types(filters.types, (low, high), size + 1, descending=descending)
        return count, fetch_page(rows, sort, size=size, **place)

    def with_related(self, rows: list[Event], user: Any) -> list[EventRow]:
        return event_rows(rows, by_name=may(user, "patients.view"))

    def row_context(self, user: Any, column_keys: Set[str]) -> EventRowContext:
        return EventRowContext(may(user, "patients.view"), may(user, "orders.view"))

    def page_context(self, filters: Any) -> dict[str, Any]:
        """Return the tabs with their counts, and the state of the deliveries."""
        counts = event_log.state_counts()
        return {
            "tab": filters.form.tab,
            "tabs": _tabs(filters, counts),
            "any_events": bool(filters.received_types),
            "oldest": event_log.oldest_waiting(),
            "silence": silence.read(),
            "failed": counts[Event.State.DEAD],
            "may_replay": may(filters.user, "events.replay"),
        }


def _tabs(filters: Any, counts: dict[str, Count]) -> list[Tab]:
    """Return a tab per state. Tabs of errors are left out if they have no events."""
    tabs: list[Tab] = []
    for name, (label, states) in TABS.items():
        count = counts[states[0]] if states else None
        is_current = name == filters.form.tab
        if count and not count.value and name not in ("failed", "done") and not is_current:
            continue
        term = vocabulary.term("event.state", states[0]) if states else None
        tabs.append(
            Tab(
                gettext(label),
                address_with(filters.data, show=name),
                is_current,
                count if count and count.value and name != "done" else None,
                family=term.family if term else "",
                glyph=term.glyph if term else "",
            )
        )
    return tabs


EVENT_LIST: Final = EventList()
