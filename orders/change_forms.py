"""Forms that change an existing order."""

from __future__ import annotations

from typing import Any

from django import forms

from backoffice.outbox.forms import CommandForm

REASON_LETTERS = 500


CANCELLATION_REASONS = {
    "patient": "The patient asked for it",
    "duplicate": "Ordered twice",
    "wrong_test": "Wrong test",
    "wrong_lab": "Wrong lab",
    "details": "Wrong details of the patient",
    "other": "Something else",
}


class CancellationReasonForm(CommandForm):
    """The reason for canceling one or many orders. No default: a cancellation cannot be undone."""

    why = forms.ChoiceField(
        label="Reason",
        choices=[("", "Choose…"), *CANCELLATION_REASONS.items()],
        error_messages={"required": "Choose why it is canceled."},
    )
    reason = forms.CharField(
        label="Details",
        max_length=REASON_LETTERS,
        required=False,
        help_text="For your colleagues; the service does not see it.",
    )

    def reason_text(self) -> str:
        """Return the reason for the audit log."""
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
                label="Cancel the appointment as well", required=False, initial=True
            )
        if reasons:
            self.fields["visit_reason"] = forms.ChoiceField(
                label="Its reason, for the center", required=False, choices=reasons
            )

    def clean_visit_too(self) -> bool:
        ticked: bool = self.cleaned_data["visit_too"]
        if ticked and self._late:
            raise forms.ValidationError("The reasons could not be had: try again, or untick it.")
        return ticked

    def clean_visit_reason(self) -> str:
        reason: str = self.cleaned_data["visit_reason"]
        if self.cleaned_data.get("visit_too") and not reason:
            raise forms.ValidationError("Choose the reason for the center.")
        return reason


class ActivationForm(CommandForm):
    activate_by = forms.DateField(
        label="Send it out on",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Leave it empty to send it out now.",
    )


class MessagesForm(CommandForm):
    """Whether the service sends text messages about an order."""

    sms_enabled = forms.ChoiceField(
        label="Text messages to the patient",
        choices=[("", "Choose…"), ("on", "On"), ("off", "Off")],
        error_messages={"required": "Choose on or off."},
    )

    def __init__(self, *args: object, is_on: bool | None, **kwargs: object) -> None:
        """Set the current state: `is_on` is None if it is unknown."""
        super().__init__(*args, **kwargs)
        self._now = {True: "on", False: "off", None: ""}[is_on]

    def clean_sms_enabled(self) -> str:
        chosen: str = self.cleaned_data["sms_enabled"]
        if chosen == self._now:
            raise forms.ValidationError(f"Text messages are {chosen} already.")
        return chosen


class SimulateForm(CommandForm):
    final_status = forms.ChoiceField(label="Until", required=False)
    interpretation = forms.ChoiceField(
        label="Result",
        choices=[("normal", "Normal"), ("abnormal", "Abnormal"), ("critical", "Critical")],
    )

    def __init__(self, *args: object, statuses: list[tuple[str, str]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["final_status"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "The end, with all steps"), *statuses]
