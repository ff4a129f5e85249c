"""The form that requests a link to connect a device."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from backoffice.outbox.forms import CommandForm
from patients.models import Provider


class ConnectForm(CommandForm):
    """A choice of provider. Without one, the patient chooses."""

    provider = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Device or app"),
        help_text=gettext_lazy("The link opens the sign-in of this device or app."),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.names = Provider.names_for_links()
        field = self.fields["provider"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", gettext("Let the patient choose")), *self.names.items()]

    def chosen(self) -> tuple[str, str]:
        """Return the slug and the name of the provider; both empty if the patient chooses."""
        slug = str(self.cleaned_data["provider"])
        return slug, self.names.get(slug, "")
