"""Results: the rows of the list and of the review queue, the columns and the download of the list.

No column has the value of an analyte.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core import vocabulary
from backoffice.core.prepared_queries import by_key
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.paging.counts import Count, capped_count
from backoffice.pages.paging.pages import Page, PagePosition
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab
from labs.models import Lab
from orders.models import Order, Result
from orders.models.order_queryset import LIST_COLUMNS
from orders.models.review import SEEN, SIGNED, SOMEBODY_ELSE, UNDONE, Review, Signature
from orders.results.badges import kind_term, place_term
from orders.results.completeness import Completeness, completeness_by_order
from orders.results.critical_calls import open_criticals
from orders.results.filters import STATE_LABELS, ResultListFilterSet
from patients.search_keys import plain_key


@dataclass(slots=True)
class ResultRow:
    """One result. `with_related` of the list sets the fields from `by_name` on."""

    review: Review
    order: Order | None
    completeness: Completeness | None
    by_name: bool = False
    lab_name: str = ""
    reported: str = ""
    """When the lab reported it, as written."""
    signature: Signature | None = None
    """Of the version that was signed last. A newer one may wait."""
    acknowledgement: Signature | None = None
    """Of the newest version, if it is a partial one that was acknowledged."""

    @property
    def pk(self) -> UUID:
        return self.review.order_id

    @property
    def test(self) -> str:
        return self.order.lab_test_name if self.order else ""

    @property
    def state(self) -> str:
        """A key of `STATE_LABELS`; "" for a result that was never read."""
        if self.review.in_queue:
            return "seen" if self.review.seen == self.review.version else "unsigned"
        return "signed" if self.review.signed >= 0 else ""

    @property
    def interpretation(self) -> str:
        """The interpretation. A result with a value that is not interpreted is never normal."""
        known = self.review.interpretation
        return "unknown" if self.review.has_uninterpreted and known in ("", "normal") else known

    @property
    def critical_state(self) -> str:
        """Return whether a critical result was acknowledged and called about; "" for others."""
        return gettext(place_term(self.review).label) if self.review.is_critical else ""


def result_rows(reviews: list[Review]) -> list[ResultRow]:
    """Return results with their orders and completeness: three queries in total."""
    keys = [row.pk for row in reviews]
    orders = by_key(Order, keys, LIST_COLUMNS)
    completeness = completeness_by_order(keys)
    return [ResultRow(row, orders.get(row.pk), completeness.get(row.pk)) for row in reviews]


def _signatures(keys: list[UUID]) -> dict[tuple[UUID, str, int], Signature]:
    """Return the latest valid signature by order, kind and version. One query."""
    rows = Signature.objects.filter(order__in=keys, undone=None).exclude(kind=UNDONE)
    return {
        (row.order_id, row.kind, row.version): row
        for row in rows.select_related("by").order_by("at", "pk")
    }


def _first_name(row: ResultRow) -> str:
    if row.order is None:
        return ""
    if row.by_name:
        return row.order.patient_first_name
    parts = plain_key(row.order.patient_name or "").split()
    return " ".join(f"{part[0].upper()}." for part in parts)


def _signature_value(
    name: str, read: Callable[[Signature], object]
) -> Callable[[ResultRow], object]:
    """Return a function that reads from a signature of a row."""

    def read_row(row: ResultRow) -> object:
        signature = getattr(row, name)
        return None if signature is None else read(signature)

    return read_row


def _signer_name(signature: Signature) -> str:
    return signature.by.get_full_name()


COLUMNS: Final = (
    Column(
        "patient",
        gettext_noop("Patient"),
        (
            ExportCell(gettext_noop("Order"), lambda row: row.pk),
            ExportCell(gettext_noop("First name"), _first_name),
            ExportCell(
                gettext_noop("Last name"),
                lambda row: row.order.patient_last_name if row.by_name and row.order else "",
            ),
        ),
    ),
    Column(
        "urgency",
        gettext_noop("Urgency"),
        (ExportCell(gettext_noop("Urgency"), lambda row: gettext(place_term(row.review).label)),),
        sort="urgency",
    ),
    Column(
        "interpretation",
        gettext_noop("Interpretation"),
        (
            ExportCell(
                gettext_noop("Interpretation"),
                lambda row: gettext(
                    vocabulary.term("result.interpretation", row.interpretation).label
                ),
            ),
        ),
    ),
    Column(
        "test",
        gettext_noop("Test"),
        (ExportCell(gettext_noop("Test"), lambda row: row.test),),
        cell_css="wide",
    ),
    Column(
        "lab", gettext_noop("Lab"), (ExportCell(gettext_noop("Lab"), lambda row: row.lab_name),)
    ),
    Column(
        "version",
        gettext_noop("Version"),
        (
            ExportCell(gettext_noop("Version"), lambda row: max(row.review.version, 0)),
            ExportCell(gettext_noop("Kind"), lambda row: gettext(kind_term(row.review).label)),
        ),
    ),
    Column(
        "state",
        gettext_noop("Sign-off"),
        (
            ExportCell(
                gettext_noop("Sign-off"),
                lambda row: gettext(STATE_LABELS[row.state]) if row.state else "",
            ),
            ExportCell(
                gettext_noop("Signed version"),
                _signature_value("signature", lambda one: one.version),
            ),
            ExportCell(gettext_noop("Signed by"), _signature_value("signature", _signer_name)),
            ExportCell(
                gettext_noop("Signed"),
                _signature_value("signature", lambda one: one.at),
                is_timestamp=True,
            ),
            ExportCell(
                gettext_noop("Acknowledged by"), _signature_value("acknowledgement", _signer_name)
            ),
        ),
    ),
    Column(
        "received",
        gettext_noop("Received"),
        (ExportCell(gettext_noop("Received"), lambda row: row.review.since, is_timestamp=True),),
        sort="received",
        cell_css="nowrap",
    ),
    Column(
        "critical",
        gettext_noop("Critical"),
        (ExportCell(gettext_noop("Critical"), lambda row: row.critical_state),),
        shown=False,
    ),
    Column(
        "identity",
        gettext_noop("Identity"),
        (
            ExportCell(
                gettext_noop("Names somebody else"), lambda row: row.review.names_somebody_else
            ),
        ),
        shown=False,
    ),
    Column(
        "reported",
        gettext_noop("Reported"),
        (ExportCell(gettext_noop("Reported by the lab"), lambda row: row.reported),),
        shown=False,
        cell_css="nowrap",
    ),
    Column("order", gettext_noop("Order"), (), shown=False, macro="order_id"),
)


@dataclass(frozen=True, slots=True)
class ResultRowContext:
    """The values that are the same for all rows of a page."""

    by_name: bool
    now: datetime


class ResultList(ListPage):
    name = "results"
    title = gettext_noop("All results")
    template = "results/list.html"
    subject = "result"
    nouns = (gettext_noop("result"), gettext_noop("results"))
    patient_column = "user_id"
    needs = ("results.view",)
    columns = COLUMNS
    row_macros = "results/result_rows.html"
    filter_set = ResultListFilterSet
    presets: ClassVar = (
        Preset(
            "mine",
            gettext_noop("Mine"),
            {"mine": ["on"], "state": ["unsigned"]},
            needs="results.sign",
        ),
        Preset("somebody", gettext_noop("Names somebody else"), {"place": [SOMEBODY_ELSE]}),
    )

    def visible_rows(self, user: Any) -> QuerySet[Review]:
        return Review.objects.all()

    def count_and_page(
        self, filters: Any, size: int, place: PagePosition, number: int | None = None
    ) -> tuple[Count, Page[Review]]:
        """Return how many results match valid filters, and a page of them.

        With no filter but the state, the tally has the number of those that wait.
        """
        if not filters.form.is_filtered():
            unsigned, seen = filters.queue_counts
            number = {"unsigned": unsigned, "seen": seen}.get(filters.form.cleaned_data["state"])
        return super().count_and_page(filters, size, place, number)

    def with_related(self, rows: list[Any], user: Any) -> list[Any]:
        """Add orders, completeness, labs, signatures and times of reports: six queries."""
        keys = [row.pk for row in rows]
        by_name, labs, signatures = may(user, "patients.view"), Lab.names(), _signatures(keys)
        reported = dict(Result.objects.filter(pk__in=keys).values_list("pk", "date_reported"))
        found = result_rows(rows)
        for row in found:
            review, lab = row.review, row.review.lab_slug or ""
            row.by_name = by_name
            row.lab_name = labs.get(lab, lab)
            row.reported = reported.get(row.pk, "")
            row.signature = signatures.get((row.pk, SIGNED, review.signed))
            row.acknowledgement = signatures.get((row.pk, SEEN, review.version))
        return found

    def row_context(self, user: Any, column_keys: Set[str]) -> ResultRowContext:
        return ResultRowContext(may(user, "patients.view"), timezone.now())

    def page_context(self, filters: Any) -> dict[str, Any]:
        """Return the states as tabs, with counts of those in which somebody has to act."""
        unsigned, seen = filters.queue_counts
        counts = {
            "unsigned": Count(unsigned),
            "seen": Count(seen),
            "critical": capped_count(open_criticals()),
        }
        current = filters.form.tab
        tabs = [
            Tab(
                gettext(label),
                address_with(filters.data, state=key),
                key == current,
                counts.get(key),
            )
            for key, label in (("", gettext_noop("All")), *STATE_LABELS.items())
        ]
        return {"tabs": tabs}

    def patient_id_of(self, row: Any) -> UUID | None:
        patient_id: UUID | None = (row.review if isinstance(row, ResultRow) else row).user_id
        return patient_id


RESULT_LIST: Final = ResultList()
