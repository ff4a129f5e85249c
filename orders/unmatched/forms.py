"""Forms of unmatched results: the filters of the list, and the decision about one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Final
from uuid import UUID

from django import forms
from django.db.models import QuerySet

from backoffice.core import vocabulary
from backoffice.outbox.forms import CommandForm
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    OpenVocabularyField,
    TimestampField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm
from labs.models import Lab
from orders.models.unmatched_result import (
    PENDING_REVIEW,
    PENDING_SERVICE_REVIEW,
    RESOLVED,
    Candidate,
    UnmatchedResult,
)

DECIDED: Final = "decided"
TABS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "": ("Needs your decision", (PENDING_REVIEW,)),
    "service": ("The service will decide", (PENDING_SERVICE_REVIEW,)),
    DECIDED: ("Decided", RESOLVED),
}
"""The tabs of the list, each with its statuses."""

NOTE_LETTERS = 1_000
ACTIONS = {
    "accept": "Accept",
    "reject": "Reject",
    "unsure": "Ask the service",
}
PATIENT = "patient:"


def choice_of(candidate: Candidate) -> str:
    return f"{candidate.order_id or ''}/{candidate.user_id or ''}"


def _lab_choices() -> list[tuple[str, str]]:
    return list(Lab.names().items())


class UnmatchedFilterForm(FilterForm):
    """Filter by lab, cause, interpretation and time of arrival, combined with AND, within a tab."""

    show = forms.ChoiceField(
        required=False,
        choices=[(key, label) for key, (label, _) in TABS.items()],
        widget=forms.HiddenInput,
    )
    lab = DeferredChoiceField(required=False, label="Lab", widget=forms.CheckboxSelectMultiple)
    decision_code = OpenVocabularyField("unmatched.decision", label="Why")
    received = DaysField("", label="Day")
    since = TimestampField(label="From")
    until = TimestampField(label="Until", end_of_day=True, help_text="The whole day.")
    interpretation = forms.ChoiceField(
        required=False,
        label="Interpretation",
        choices=[("", "Any"), *vocabulary.choices("order.interpretation")],
    )

    SORTS: ClassVar = {
        "created_at": ("created_at", "id"),
        "name": ("last_name", "first_name", "id"),
        "reviewed_at": ("reviewed_at", "id"),
    }
    PRIVATE_SORTS = frozenset({"name"})
    DESCENDING_FIRST = frozenset({"reviewed_at"})
    TAB_FIELDS = frozenset({"show"})
    FILTERS: ClassVar = (
        Filter("Lab", ("lab",), always_shown=True),
        Filter("Why", ("decision_code",), always_shown=True),
        Filter("Received", ("received", "since", "until"), always_shown=True, shows_zone=True),
        Filter("Result", ("interpretation",), always_shown=True),
    )

    def __init__(self, data: Any = None, *, sees_results: bool) -> None:
        super().__init__(data)
        labs = self.fields["lab"]
        assert isinstance(labs, DeferredChoiceField)
        labs.offer(cache(_lab_choices))
        if not sees_results:
            self.hidden["interpretation"] = "results"

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "since", "until")

    @property
    def tab(self) -> str:
        return self.cleaned_data.get("show") or ""

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort: what waits longest is first; of what is decided, the latest."""
        key, direction = super().sort
        if not self.can_sort_by(key):
            return "created_at", self._default_direction
        if key == "created_at" and not self.cleaned_data.get("order_direction"):
            direction = self._default_direction
        return key, direction

    @property
    def _default_direction(self) -> str:
        return "desc" if self.tab == DECIDED else "asc"

    def can_sort_by(self, key: str) -> bool:
        """Return whether the open tab has this sort.

        Only decided results have a decision time. Only the others are few enough to sort by name.
        """
        is_decided = self.tab == DECIDED
        has_sort = {"reviewed_at": is_decided, "name": not is_decided}.get(key, True)
        return has_sort and super().can_sort_by(key)

    def apply(self, rows: QuerySet[UnmatchedResult]) -> QuerySet[UnmatchedResult]:
        """Return the rows that match the filters, in all tabs."""
        filters = self.cleaned_data
        for name, condition in (
            ("lab", "lab_slug__in"),
            ("decision_code", "decision_code__in"),
            ("since", "created_at__gte"),
            ("until", "created_at__lte"),
            ("interpretation", "interpretation"),
        ):
            if filters[name]:
                rows = rows.filter(**{condition: filters[name]})
        if filters["received"]:
            first, after = filters["received"]
            rows = rows.filter(created_at__gte=first, created_at__lt=after)
        return rows


class DecisionForm(CommandForm):
    """A decision. `choice`: one of the suggested orders with its patient, or any patient.

    `obvious` is the default choice. It is empty if staff must choose.
    """

    action = forms.ChoiceField(required=True)
    choice = forms.CharField(max_length=100, required=False)
    note = forms.CharField(
        label="Note",
        max_length=NOTE_LETTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Sent to the service with your decision.",
    )

    def __init__(
        self,
        *args: Any,
        item: UnmatchedResult,
        candidates: Sequence[Candidate],
        obvious: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.obvious = obvious
        self.candidates = {choice_of(candidate): candidate for candidate in candidates}
        action = self.fields["action"]
        assert isinstance(action, forms.ChoiceField)
        action.choices = [(a, ACTIONS[a]) for a in ACTIONS if a in item.allowed_actions]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if values.get("action") != "accept":
            return values
        chosen = values.get("choice") or self.obvious
        values["order_id"], values["user_id"] = self._read(chosen)
        return values

    def _read(self, chosen: str) -> tuple[UUID | None, UUID | None]:
        if chosen in self.candidates:
            candidate = self.candidates[chosen]
            return candidate.order_id, candidate.user_id
        if not chosen:
            words = "Say which order or patient it belongs to."
        else:
            try:
                return None, UUID(chosen.removeprefix(PATIENT))
            except ValueError:
                words = "The service no longer suggests this."
        self.add_error("choice", words)
        return None, None
