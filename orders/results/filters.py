"""The filters of results: of the list of all results, and of the review queue."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django_filters import ChoiceFilter, Filter

from backoffice.pages.lists.filters import (
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    PersonFilter,
    TabFilter,
    TimestampFilter,
    UUIDFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup
from labs.models import Lab
from orders.filters import ME, NOBODY, offer_assignees_and_labs
from orders.models.review import IN_QUEUE, OPEN_CRITICAL, SOMEBODY_ELSE, Review
from orders.results.queue import (
    QUEUE_SORT,
    STATES,
    assigned_order_ids,
    place_condition,
    queue_counts,
)

ROWS_STEP: Final = 40
"""Rows of the queue beside a report, and rows added by "Show more", up to `MAX_ROWS`."""
MAX_ROWS: Final = 400
PLACE_LABELS: Final = {
    "critical": "Critical",
    "abnormal": "Abnormal",
    "corrected": "Corrected",
    "unknown": "Not interpreted",
    SOMEBODY_ELSE: "Another person",
    "normal": "Normal",
    "partial": "Partial",
    "seen": "Partial, seen",
}
STATE_LABELS: Final = {
    "unsigned": "Waits for sign-off",
    "seen": "Partial, acknowledged",
    "critical": "Open criticals",
    "signed": "Signed",
}


class ResultFilterSet(ListFilterSet):
    """The filters that the list and the review queue share."""

    place = ChoiceFilter(
        label="Urgency",
        empty_label="Everything",
        choices=list(PLACE_LABELS.items()),
        method="filter_place",
    )
    mine = ChoiceFilter(
        label="Mine",
        empty_label="Everything",
        choices=[("on", "Signed by me or assigned to me")],
        method="filter_mine",
    )
    patient = UUIDFilter("user", label="Patient ID")

    def filter_place(self, reviews: QuerySet[Review], name: str, place: str) -> QuerySet[Review]:
        return reviews.filter(place_condition(place))

    def filter_mine(self, reviews: QuerySet[Review], name: str, value: str) -> QuerySet[Review]:
        assigned = Q(pk__in=assigned_order_ids(self.user))
        return reviews.filter(Q(signer=self.user) | assigned)


class ResultListForm(FilterForm):
    SORTS: ClassVar = {"received": ("since", "order_id"), "urgency": tuple(QUEUE_SORT.columns)}
    DESCENDING_FIRST = frozenset({"received"})
    TAB_FIELD = "state"
    FILTERS: ClassVar = (
        FilterGroup("Urgency", ("place",), always_shown=True),
        FilterGroup("Lab", ("lab",), always_shown=True),
        FilterGroup(
            "Date", ("received", "start_date", "end_date"), always_shown=True, shows_zone=True
        ),
        FilterGroup("Signed by", ("signer",), always_shown=True),
        FilterGroup("Mine", ("mine",)),
        FilterGroup("About", ("patient",)),
    )

    def __init__(self, data: Any = None, *, user: Any) -> None:
        super().__init__(data, user=user)
        offer_assignees_and_labs(self, signer="assigned", lab="lab")


class ResultListFilterSet(ResultFilterSet):
    """The filters of the list of all results."""

    state = TabFilter(STATE_LABELS)
    lab = DeferredChoiceFilter("lab_slug", label="Lab")
    received = DaysFilter("since", short="received", label="Received")
    start_date = TimestampFilter("since", "gte", label="Received from")
    end_date = TimestampFilter(
        "since", "lte", label="Received until", end_of_day=True, help_text="The whole day."
    )
    signer = PersonFilter("signer", label="Signed by", me=ME, nobody=NOBODY)

    class Meta:
        form = ResultListForm

    def filter_tab(self, reviews: QuerySet[Review], name: str, tab: str) -> QuerySet[Review]:
        return reviews.filter(STATES[tab])

    @cached_property
    def queue_counts(self) -> tuple[int, int]:
        """The stored counts, read once for the count of the list and for its tabs."""
        return queue_counts()


class RowLimitField(forms.IntegerField):
    """A number of rows to show; None if it is out of range, which is no reason to show nothing."""

    def clean(self, value: Any) -> int | None:
        try:
            number: int | None = super().clean(value)
        except forms.ValidationError:
            return None
        return number


class ResultQueueForm(FilterForm):
    shown = RowLimitField(required=False, min_value=ROWS_STEP, max_value=MAX_ROWS)


class CheckboxFilter(Filter):
    """A checkbox. Its method is called whether it is checked or not."""

    field_class = forms.BooleanField


class ResultQueueFilterSet(ResultFilterSet):
    """The filters of the queue: results that wait for review, or open critical results."""

    lab = ChoiceFilter("lab_slug", label="Lab", empty_label="All labs", choices=Lab.choices)
    critical = CheckboxFilter(label="Open criticals", method="filter_critical")

    class Meta:
        form = ResultQueueForm

    def filter_critical(
        self, reviews: QuerySet[Review], name: str, is_critical: bool
    ) -> QuerySet[Review]:
        return reviews.filter(OPEN_CRITICAL if is_critical else IN_QUEUE)

    @property
    def is_filtered(self) -> bool:
        form = self.form
        return not form.is_valid() or any(form.cleaned_data[name] for name in self.filters)

    @property
    def row_limit(self) -> int:
        """The number of rows to show beside a report."""
        return (self.form.cleaned_data["shown"] if self.form.is_valid() else None) or ROWS_STEP


def review_queue(data: Any, user: Any) -> ResultQueueFilterSet:
    """Return the filters of the review queue from the parameters of a URL."""
    return ResultQueueFilterSet(data, Review.objects.all(), user=user)
