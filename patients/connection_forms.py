"""The form that requests a link to connect a device."""

from __future__ import annotations

from typing import Any

from django import forms

from backoffice.outbox.forms import CommandForm
from patients.models import Provider


class ConnectForm(CommandForm):
    """A choice of provider. Without one, the patient chooses."""

    provider = forms.ChoiceField(
        required=False,
        label="Device or app",
        help_text="The link then leads straight to it.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.names = Provider.names_for_links()
        field = self.fields["provider"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "The patient chooses"), *self.names.items()]

    def chosen(self) -> tuple[str, str]:
        """Return the slug and the name of the provider; both empty if the patient chooses."""
        slug = str(self.cleaned_data["provider"])
        return slug, self.names.get(slug, "")
