"""Forms for documents: labels of one order, and print jobs of many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext, gettext_lazy, ngettext

from backoffice.outbox.forms import CommandForm
from backoffice.pages.widgets import TO_THE_MINUTE
from orders.documents.collection import (
    CollectedField,
    CollectionClock,
    collection_clock,
    collection_time_error,
    time_range_error,
)
from orders.documents.kinds import (
    DEFAULT_LABELS,
    KINDS,
    MAX_LABELS,
    DocumentFacts,
    DocumentKind,
    LabelOptions,
)

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


def _number(label: StrOrPromise) -> forms.IntegerField:
    words = format_lazy(gettext_lazy("Choose 1 to {limit} labels."), limit=MAX_LABELS)
    return forms.IntegerField(
        label=label,
        min_value=1,
        max_value=MAX_LABELS,
        required=False,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), words),
    )


class LabelsForm(forms.Form):
    """The number of labels of an order, and the time of collection on them.

    The time is typed in the time zone of the draw, or it is the current time. A link without a time
    means the known time.
    """

    number = _number(gettext_lazy("Labels"))
    collected_at = CollectedField(required=True)

    def __init__(self, facts: DocumentFacts, data: QueryDict | None = None) -> None:
        self.facts = facts
        self.clock = collection_clock(facts.order, facts.visit)
        self.is_now = data is not None and "now" in data
        collected = facts.collected
        initial = {"number": DEFAULT_LABELS, "collected_at": collected.at if collected else None}
        if data is not None and collected and not {"collected_at", "now"} & set(data):
            data = data.copy()
            local = collected.at.astimezone(self.clock.zone)
            data["collected_at"] = local.strftime(TO_THE_MINUTE)
        elif data is not None and self.is_now:
            data = data.copy()
            data["collected_at"] = ""
        super().__init__(data, initial=initial, auto_id="labels_%s")
        field = self.fields["collected_at"]
        assert isinstance(field, CollectedField)
        field.zone, field.required = self.clock.zone, not self.is_now

    @property
    def hint(self) -> str:
        """Return the zone of the typed time, and the source of the initial time."""
        collected = self.facts.collected
        note = f", {self.clock.note}" if self.clock.note else ""
        source = collected.source if collected else gettext("No collection time is known.")
        return f"{source} {self.clock.name}{note}."

    @property
    def words(self) -> str:
        """Return the errors as sentences."""
        return " ".join(str(text) for texts in self.errors.values() for text in texts)

    def clean_collected_at(self) -> datetime:
        if self.is_now:
            return timezone.now()
        at: datetime = self.cleaned_data["collected_at"]
        facts = self.facts
        if reason := collection_time_error(at, facts.order, facts.collected, self.clock.zone):
            raise ValidationError(reason)
        return at

    def options(self) -> LabelOptions:
        """Return the options from a valid form."""
        values = self.cleaned_data
        return LabelOptions(values["number"] or DEFAULT_LABELS, values["collected_at"])


class PrintForm(CommandForm):
    """Which documents of the selected orders are printed, and how."""

    kinds = forms.MultipleChoiceField(
        label=gettext_lazy("Documents"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Choose at least one document.")},
    )
    labels = _number(gettext_lazy("Labels per order"))
    collected_at = CollectedField(required=False)
    new_sheet = forms.BooleanField(
        label=gettext_lazy("Start each document on a new sheet (for two-sided printing)"),
        required=False,
    )

    def __init__(
        self,
        *args: Any,
        kinds: Sequence[DocumentKind],
        facts: Sequence[DocumentFacts],
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.clock = CollectionClock(timezone.get_current_timezone())
        self.created = [
            fact.order.created_at
            for fact in facts
            if not fact.collected and not KINDS["labels"].unavailable_reason(fact)
        ]
        collected = self.fields["collected_at"]
        collected.label = gettext("Collection time for orders without one")
        collected.help_text = _collection_times_hint(len(facts), len(self.created), self.clock.name)
        field = self.fields["kinds"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(kind.slug, gettext(kind.label)) for kind in kinds]

    def clean_collected_at(self) -> datetime | None:
        at: datetime | None = self.cleaned_data["collected_at"]
        if at is None or not self.created:
            return at
        # A time that is too early for some of the orders leaves only those orders out.
        if reason := time_range_error(at, min(self.created), self.clock.zone):
            raise ValidationError(reason)
        return at


def _collection_times_hint(count: int, without: int, zone: str) -> str:
    if not without:
        return gettext("Every order has a collection time. This one is not used.")
    if count == 1:
        return gettext(
            "For labels only. This order has no collection time, so its labels are skipped unless "
            "you enter one. Time zone: %(zone)s."
        ) % {"zone": zone}
    return ngettext(
        "For labels only. %(without)s of %(count)s orders has no collection time, so its labels "
        "are skipped unless you enter one. Time zone: %(zone)s.",
        "For labels only. %(without)s of %(count)s orders have no collection time, so their labels "
        "are skipped unless you enter one. Time zone: %(zone)s.",
        without,
    ) % {"without": without, "count": count, "zone": zone}
