"""Forms that change an existing order."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.outbox.forms import CommandForm

REASON_LETTERS = 500


CANCELLATION_REASONS = {
    "patient": gettext_noop("Patient request"),
    "duplicate": gettext_noop("Ordered twice"),
    "wrong_test": gettext_noop("Wrong test"),
    "wrong_lab": gettext_noop("Wrong lab"),
    "details": gettext_noop("Wrong patient information"),
    "other": gettext_noop("Other"),
}


def _reason_choices() -> list[tuple[str, str]]:
    reasons = [(key, gettext(label)) for key, label in CANCELLATION_REASONS.items()]
    return [("", gettext("Choose…")), *reasons]


class CancellationReasonForm(CommandForm):
    """The reason for canceling one or many orders. No default: a cancellation cannot be undone."""

    why = forms.ChoiceField(
        label=gettext_lazy("Reason"),
        choices=_reason_choices,
        error_messages={"required": gettext_lazy("Choose a reason for canceling.")},
    )
    reason = forms.CharField(
        label=gettext_lazy("Details"),
        max_length=REASON_LETTERS,
        required=False,
        help_text=gettext_lazy("For your team only. The lab service does not see it."),
    )

    def reason_text(self) -> str:
        """Return the reason for the audit log, in English."""
        words = (CANCELLATION_REASONS[self.cleaned_data["why"]], self.cleaned_data["reason"])
        return ": ".join(word for word in words if word)


class CancelForm(CancellationReasonForm):
    """The reason, and whether the appointment at a center is canceled too."""

    def __init__(self, *args: Any, reasons: list[tuple[str, str]] | None, **options: Any) -> None:
        """Set the choices. `reasons`: empty without a visit, None without the service's answer."""
        super().__init__(*args, **options)
        self._late = reasons is None
        if reasons or (self._late and self.data.get("visit_too")):
            self.fields["visit_too"] = forms.BooleanField(
                label=gettext("Cancel the appointment too"), required=False, initial=True
            )
        if reasons:
            self.fields["visit_reason"] = forms.ChoiceField(
                label=gettext("Reason for the service center"), required=False, choices=reasons
            )

    def clean_visit_too(self) -> bool:
        ticked: bool = self.cleaned_data["visit_too"]
        if ticked and self._late:
            raise forms.ValidationError(
                gettext("The reasons could not be loaded. Try again, or clear the checkbox.")
            )
        return ticked

    def clean_visit_reason(self) -> str:
        reason: str = self.cleaned_data["visit_reason"]
        if self.cleaned_data.get("visit_too") and not reason:
            raise forms.ValidationError(gettext("Choose a reason for the service center."))
        return reason


class ActivationForm(CommandForm):
    activate_by = forms.DateField(
        label=gettext_lazy("Release on"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text=gettext_lazy("Leave empty to release the order now."),
    )


class MessagesForm(CommandForm):
    """Whether the service sends text messages about an order."""

    sms_enabled = forms.ChoiceField(
        label=gettext_lazy("Text messages to the patient"),
        choices=[
            ("", gettext_lazy("Choose…")),
            ("on", gettext_lazy("On")),
            ("off", gettext_lazy("Off")),
        ],
        error_messages={"required": gettext_lazy("Choose on or off.")},
    )

    def __init__(self, *args: object, is_on: bool | None, **kwargs: object) -> None:
        """Set the current state: `is_on` is None if it is unknown."""
        super().__init__(*args, **kwargs)
        self._now = {True: "on", False: "off", None: ""}[is_on]

    def clean_sms_enabled(self) -> str:
        chosen: str = self.cleaned_data["sms_enabled"]
        if chosen == self._now:
            raise forms.ValidationError(
                gettext("Text messages are already on.")
                if chosen == "on"
                else gettext("Text messages are already off.")
            )
        return chosen


class SimulateForm(CommandForm):
    final_status = forms.ChoiceField(label=gettext_lazy("Until"), required=False)
    interpretation = forms.ChoiceField(
        label=gettext_lazy("Result"),
        choices=[
            ("normal", gettext_lazy("Normal")),
            ("abnormal", gettext_lazy("Abnormal")),
            ("critical", gettext_lazy("Critical")),
        ],
    )

    def __init__(self, *args: object, statuses: list[tuple[str, str]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["final_status"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", gettext("The end, with all steps")), *statuses]
