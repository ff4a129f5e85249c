"""The form of the replay page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django import forms
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.pages.lists.fields import TimestampField
from webhooks import event_log
from webhooks.models import Event, EventQuerySet


class ReplayFilters(forms.Form):
    """Filters for events that were not applied, to be replayed."""

    STATES: Final[Mapping[str, str]] = {
        Event.State.DEAD: gettext_noop("Failed"),
        Event.State.SKIPPED: gettext_noop("Skipped"),
        Event.State.QUARANTINED: gettext_noop("From another team"),
    }

    state = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Status"),
        choices=lambda: [(state, gettext(label)) for state, label in ReplayFilters.STATES.items()],
    )
    since = TimestampField(label=gettext_lazy("Received from"))
    type = forms.CharField(
        required=False,
        max_length=120,
        label=gettext_lazy("Type"),
        help_text=gettext_lazy("Full words from the start, such as labtest.order."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "none"}),
    )
    reason = forms.CharField(required=False, max_length=200, label=gettext_lazy("Reason"))
    through = forms.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput
    )
    shown_at = TimestampField(widget=forms.HiddenInput)

    def chosen_state(self) -> str:
        return str(self.cleaned_data.get("state") or Event.State.DEAD)

    def apply(self, rows: EventQuerySet, types: list[str]) -> EventQuerySet:
        """Filter the rows that the page has shown, without events that arrived or failed since."""
        filters = self.cleaned_data
        rows = rows.filter(state=self.chosen_state())
        if filters.get("type"):
            rows = rows.filter(event_type__in=event_log.types_with_prefix(types, filters["type"]))
        if filters.get("reason"):
            rows = rows.filter(reason=filters["reason"])
        if filters.get("through"):
            rows = rows.filter(pk__lte=filters["through"])
        if filters.get("shown_at"):
            rows = rows.filter(applied_at__lte=filters["shown_at"])
        since = filters.get("since")
        if since is not None:
            rows = rows.filter(pk__gt=event_log.last_event_before(since))
        return rows.received_between(since, None)
