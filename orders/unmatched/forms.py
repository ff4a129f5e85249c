"""The form of the decision about an unmatched result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django import forms
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.outbox.forms import CommandForm
from orders.models.unmatched_result import Candidate, UnmatchedResult

MAX_NOTE_LENGTH: Final = 1_000
ACTIONS: Final = {
    "accept": gettext_noop("Accept"),
    "reject": gettext_noop("Reject"),
    "unsure": gettext_noop("Ask the service"),
}
PATIENT_PREFIX: Final = "patient:"
"""What a choice of a patient who is not suggested begins with."""


def choice_of(candidate: Candidate) -> str:
    return f"{candidate.order_id or ''}/{candidate.user_id or ''}"


class DecisionForm(CommandForm):
    """A decision. `choice`: one of the suggested orders with its patient, or any patient.

    `obvious` is the default choice. It is empty if staff must choose.
    """

    action = forms.ChoiceField(required=True)
    choice = forms.CharField(max_length=100, required=False)
    note = forms.CharField(
        label=gettext_lazy("Note"),
        max_length=MAX_NOTE_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("Sent to the service with your decision."),
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
        action.choices = [(a, gettext(ACTIONS[a])) for a in ACTIONS if a in item.allowed_actions]

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
            message = gettext("Choose the order or patient that the result belongs to.")
        else:
            try:
                return None, UUID(chosen.removeprefix(PATIENT_PREFIX))
            except ValueError:
                message = gettext("The service no longer suggests this match. Choose again.")
        self.add_error("choice", message)
        return None, None
