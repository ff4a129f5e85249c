"""The filters of results: of the list of all results, and of the review queue."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy, gettext_noop
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
    "critical": gettext_noop("Critical"),
    "abnormal": gettext_noop("Abnormal"),
    "corrected": gettext_noop("Corrected"),
    "unknown": gettext_noop("Not interpreted"),
    SOMEBODY_ELSE: gettext_noop("Names somebody else"),
    "normal": gettext_noop("Normal"),
    "partial": gettext_noop("Partial"),
    "seen": gettext_noop("Partial, acknowledged"),
}
STATE_LABELS: Final = {
    "unsigned": gettext_noop("Awaiting sign-off"),
    "seen": gettext_noop("Partial, acknowledged"),
    "critical": gettext_noop("Open critical results"),
    "signed": gettext_noop("Signed"),
}


class ResultFilterSet(ListFilterSet):
    """The filters that the list and the review queue share."""

    place = ChoiceFilter(
        label=gettext_lazy("Urgency"),
        empty_label=gettext_lazy("All"),
        choices=[(key, gettext_lazy(label)) for key, label in PLACE_LABELS.items()],
        method="filter_place",
    )
    mine = ChoiceFilter(
        label=gettext_lazy("Mine"),
        empty_label=gettext_lazy("All"),
        choices=[("on", gettext_lazy("Signed by me or assigned to me"))],
        method="filter_mine",
    )
    patient = UUIDFilter("user", label=gettext_lazy("Patient ID"))

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
        FilterGroup(gettext_noop("Urgency"), ("place",), always_shown=True),
        FilterGroup(gettext_noop("Lab"), ("lab",), always_shown=True),
        FilterGroup(
            gettext_noop("Date"),
            ("received", "start_date", "end_date"),
            always_shown=True,
            shows_zone=True,
        ),
        FilterGroup(gettext_noop("Signed by"), ("signer",), always_shown=True),
        FilterGroup(gettext_noop("Mine"), ("mine",)),
        FilterGroup(gettext_noop("Patient"), ("patient",)),
    )

    def __init__(self, data: Any = None, *, user: Any) -> None:
        super().__init__(data, user=user)
        offer_assignees_and_labs(self, signer="assigned", lab="lab")


class ResultListFilterSet(ResultFilterSet):
    """The filters of the list of all results."""

    state = TabFilter(STATE_LABELS)
    lab = DeferredChoiceFilter("lab_slug", label=gettext_lazy("Lab"))
    received = DaysFilter("since", short="received", label=gettext_lazy("Received"))
    start_date = TimestampFilter("since", "gte", label=gettext_lazy("Received from"))
    end_date = TimestampFilter(
        "since",
        "lte",
        label=gettext_lazy("Received until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )
    signer = PersonFilter("signer", label=gettext_lazy("Signed by"), me=ME, nobody=NOBODY)

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

    lab = ChoiceFilter(
        "lab_slug",
        label=gettext_lazy("Lab"),
        empty_label=gettext_lazy("All labs"),
        choices=Lab.choices,
    )
    critical = CheckboxFilter(label=gettext_lazy("Open critical results"), method="filter_critical")

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
