"""Forms that change an order that stands."""

from __future__ import annotations

from typing import Any

from django import forms

from backoffice.outbox import AskForm

REASON_LETTERS = 500


WHYS = {
    "patient": "The patient asked for it",
    "duplicate": "Ordered twice",
    "wrong_test": "Wrong test",
    "wrong_lab": "Wrong lab",
    "details": "Wrong details of the patient",
    "other": "Something else",
}


class CancelForm(AskForm):
    """Why an order is cancelled, and whether its appointment at a center goes, too."""

    why = forms.ChoiceField(
        label="Reason", required=False, choices=[("", "Choose…"), *WHYS.items()]
    )
    reason = forms.CharField(
        label="More about it",
        max_length=REASON_LETTERS,
        required=False,
        help_text="For your colleagues; the service does not see it.",
    )

    def __init__(self, *args: Any, reasons: list[tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        if reasons:
            self.fields["visit_too"] = forms.BooleanField(
                label="Cancel the appointment as well", required=False, initial=True
            )
            self.fields["visit_reason"] = forms.ChoiceField(
                label="Its reason, for the centre", required=False, choices=reasons
            )

    def told(self) -> str:
        """For the log."""
        words = (WHYS.get(self.cleaned_data["why"], ""), self.cleaned_data["reason"])
        return ": ".join(word for word in words if word)


class ActivationForm(AskForm):
    activate_by = forms.DateField(
        label="Send it out on",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Leave it empty to send it out now.",
    )


class SimulateForm(AskForm):
    final_status = forms.ChoiceField(label="Until", required=False)
    interpretation = forms.ChoiceField(
        label="Result",
        choices=[("normal", "Normal"), ("abnormal", "Abnormal"), ("critical", "Critical")],
    )

    def __init__(self, *args: object, statuses: list[tuple[str, str]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        field = self.fields["final_status"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "The end, with all steps"), *statuses]
