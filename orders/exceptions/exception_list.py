"""The list of exceptions: one group at a time, its columns and its download."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet, Value
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.core.urls import page_url, record_url
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.filtered_page import count_and_page
from backoffice.pages.paging.pages import Page, PagePosition, Sort, fetch_page
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab
from backoffice.team.models import Assignment
from backoffice.team.queries import assignments_by_subject
from labs.models import Lab
from orders.exceptions import queue
from orders.exceptions.cards import OUTCOME_LABELS
from orders.exceptions.filters import ExceptionFilterSet
from orders.exceptions.queue import CRITICAL, ExceptionGroup
from orders.models import Handling, Order, Review


@dataclass(frozen=True, slots=True)
class ExceptionRow:
    """One order of a group, with its last handling and its assignment."""

    group: str
    order: Order
    since: datetime | None
    """The time of the last change of its status, or the receipt of the critical result."""
    handling: Handling | None
    assignment: Assignment | None
    is_mine: bool
    """Whether the user is the assignee."""
    lab_name: str
    is_first: bool = False

    @property
    def url(self) -> str:
        """The URL of its card, or of its report if the result is critical."""
        if self.group == CRITICAL:
            return record_url("reviewing:report", self.order.pk)
        return reverse("exceptions:card", args=[self.group, self.order.pk])


def exception_rows(rows: Sequence[Any], user: Any) -> list[ExceptionRow]:
    """Return rows of `queue.group_rows` with their related data: at most four queries."""
    ids = [row.pk for row in rows]
    reviews = {row.pk: row for row in rows if isinstance(row, Review)}
    orders = {row.pk: _order_of(row) for row in rows if row.pk not in reviews}
    if reviews:
        # One that was deleted since is shown by its id.
        orders = {key: Order(pk=key) for key in ids}
        orders |= Order.objects.only(*queue.ROW_COLUMNS).in_bulk(ids)
    handlings = queue.handlings_by_order(ids)
    assignments = assignments_by_subject("order", ids)
    labs = Lab.names()
    found: list[ExceptionRow] = []
    for row in rows:
        order = orders[row.pk]
        assignment = assignments.get(str(order.pk))
        found.append(
            ExceptionRow(
                row.group,
                order,
                row.since if isinstance(row, Review) else order.last_event_at,
                handlings.get(order.pk),
                assignment,
                assignment is not None and assignment.user_id == user.pk,
                labs.get(order.lab_slug or "", order.lab_slug or ""),
                is_first=not found,
            )
        )
    return found


def group_tabs(
    groups: Iterable[tuple[ExceptionGroup, Count]], current: ExceptionGroup, parameters: QueryDict
) -> list[Tab]:
    """Return the groups as tabs of the list, which keep its parameters."""
    url = page_url("exceptions:list")
    return [
        Tab(
            gettext(group.label),
            url + address_with(parameters, group=group.key),
            group == current,
            count,
            family=group.family if count.value else vocabulary.CLOSED,
            glyph=group.glyph if count.value else "dash",
        )
        for group, count in groups
    ]


def _order_of(row: Any) -> Any:
    return row.order if isinstance(row, Handling) else row


def _order_value(name: str) -> Callable[[ExceptionRow], object]:
    """Return a function that reads an attribute of the order of a row."""
    return lambda row: getattr(row.order, name)


def _status_label(row: ExceptionRow) -> str:
    order = row.order
    term = vocabulary.order_term(order.low_level_status, order.method, (), order.bucket)
    return gettext(term.label)


def _detail_label(row: ExceptionRow) -> str:
    return gettext(vocabulary.term("order.status_detail", row.order.status_detail).label)


def _method_label(row: ExceptionRow) -> str:
    return gettext(vocabulary.term("order.method", row.order.method).label)


def _outcome_label(row: ExceptionRow) -> str:
    if row.handling is None:
        return ""
    return gettext(OUTCOME_LABELS.get(row.handling.outcome, row.handling.outcome))


COLUMNS: Final = (
    Column(
        "patient",
        gettext_noop("Patient"),
        (
            ExportCell(gettext_noop("Order"), _order_value("pk")),
            ExportCell(gettext_noop("First name"), _order_value("patient_first_name")),
            ExportCell(gettext_noop("Last name"), _order_value("patient_last_name")),
        ),
        sort="patient",
    ),
    Column(
        "status",
        gettext_noop("What happened"),
        (
            ExportCell(gettext_noop("Status"), _status_label),
            ExportCell(gettext_noop("Status detail"), _detail_label),
        ),
    ),
    Column(
        "since",
        gettext_noop("Since"),
        (ExportCell(gettext_noop("Since"), lambda row: row.since, is_timestamp=True),),
        sort="waiting",
        cell_css="nowrap",
    ),
    Column(
        "overdue",
        gettext_noop("Overdue"),
        (ExportCell(gettext_noop("Due"), _order_value("quiet_at"), is_timestamp=True),),
        sort="overdue",
        cell_css="nowrap",
    ),
    Column(
        "outcome",
        gettext_noop("Last outcome"),
        (
            ExportCell(gettext_noop("Last outcome"), _outcome_label),
            ExportCell(
                gettext_noop("Outcome recorded"),
                lambda row: row.handling.at if row.handling else None,
                is_timestamp=True,
            ),
            ExportCell(
                gettext_noop("Outcome recorded by"),
                lambda row: row.handling.by.get_full_name() if row.handling else "",
            ),
        ),
    ),
    Column(
        "due",
        gettext_noop("Back in queue"),
        (
            ExportCell(
                gettext_noop("Back in queue"),
                lambda row: row.handling.until if row.handling else None,
                is_timestamp=True,
            ),
        ),
        sort="due",
        cell_css="nowrap",
    ),
    Column(
        "assigned",
        gettext_noop("Assigned to"),
        (
            ExportCell(
                gettext_noop("Assigned to"),
                lambda row: row.assignment.user.get_full_name() if row.assignment else "",
            ),
        ),
        cell_css="nowrap",
    ),
    Column(
        "test",
        gettext_noop("Test"),
        (
            ExportCell(gettext_noop("Test"), _order_value("lab_test_name")),
            ExportCell(gettext_noop("Method"), _method_label),
        ),
        shown=False,
    ),
    Column(
        "lab",
        gettext_noop("Lab"),
        (ExportCell(gettext_noop("Lab"), lambda row: row.lab_name),),
        shown=False,
    ),
    Column(
        "ordered",
        gettext_noop("Ordered"),
        (ExportCell(gettext_noop("Ordered"), _order_value("created_at"), is_timestamp=True),),
        sort="ordered",
        shown=False,
        cell_css="nowrap",
    ),
    Column(
        "changed",
        gettext_noop("Changed"),
        (ExportCell(gettext_noop("Changed"), _order_value("updated_at"), is_timestamp=True),),
        sort="changed",
        shown=False,
        cell_css="nowrap",
    ),
    Column("order", gettext_noop("Order"), (), shown=False, macro="order_id"),
)


class ExceptionList(ListPage):
    """The rows of the open group: orders, snoozed orders or critical results."""

    name = "exceptions"
    title = gettext_noop("Exceptions")
    template = "exceptions/list.html"
    subject = "exception"
    nouns = (gettext_noop("exception"), gettext_noop("exceptions"))
    patient_column = "user_id"
    needs = ("exceptions.work", "orders.view", "patients.view")
    columns = COLUMNS
    row_macros = "exceptions/exception_rows.html"
    filter_set = ExceptionFilterSet

    def visible_rows(self, user: Any) -> QuerySet[Order]:
        return Order.objects.only(*queue.ROW_COLUMNS).annotate(group=Value(""))

    def count_and_page(
        self, filters: Any, size: int, place: PagePosition, number: int | None = None
    ) -> tuple[Count, Page[Any]]:
        return count_and_page(
            filters.qs, filters.group_rows, self.sort_for(filters), size, place, number
        )

    def page(self, rows: QuerySet[Any], filters: Any, size: int, place: PagePosition) -> Page[Any]:
        """Return a page of the open group, or of `visible_rows`, which have other columns."""
        if rows.model is filters.group_rows.model:
            return super().page(rows, filters, size, place)
        return fetch_page(rows, Sort(queue.SORTS["overdue"]), size=size, **place)

    def with_open_tab(self, parameters: QueryDict, user: Any) -> QueryDict:
        """Return the parameters with the first group that is not empty, if they name none."""
        if "group" in parameters:
            return parameters
        form: Any = self.filters(parameters, user).form
        if not form.is_valid():
            return parameters
        changed = parameters.copy()
        changed["group"] = form.open_group.key
        changed._mutable = False
        return changed

    def with_related(self, rows: list[Any], user: Any) -> list[Any]:
        return exception_rows(rows, user)

    def page_context(self, filters: Any) -> dict[str, Any]:
        """Return the groups as tabs, and the items of the open one that are not orders."""
        form = filters.form
        return {
            "tabs": group_tabs(form.groups, form.open_group, filters.data),
            "group": form.open_group,
            "has_waiting": form.has_waiting,
            "other_items": queue.other_items(form.open_group.key, filters.user),
        }

    def patient_id_of(self, row: Any) -> UUID | None:
        patient_id: UUID | None = _order_of(row).user_id
        return patient_id


EXCEPTION_LIST: Final = ExceptionList()
