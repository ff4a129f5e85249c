"""Forms that change an order that stands."""

from __future__ import annotations

from django import forms

from backoffice.outbox import AskForm

REASON_LETTERS = 500


class ReasonForm(AskForm):
    """A change with nothing to say but why."""

    reason = forms.CharField(
        label="Reason",
        max_length=REASON_LETTERS,
        required=False,
        help_text="For your colleagues; the service does not see it.",
    )


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
