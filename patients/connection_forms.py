"""Which device or app a link to connect one leads to."""

from __future__ import annotations

from typing import Any, Final

from django import forms

from backoffice.outbox import CommandForm
from patients.models import Provider

ON_THE_PHONE: Final = ("sdk", "app")
"""How providers are connected that only an app on the patient's phone connects."""


class ConnectForm(CommandForm):
    """The provider is optional: without one, the patient chooses."""

    provider = forms.ChoiceField(
        required=False,
        label="Device or app",
        help_text="The link then leads straight to it.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        rows = Provider.objects.filter(missing_since=None).exclude(auth_type__in=ON_THE_PHONE)
        named = rows.order_by("name", "slug").values_list("slug", "name")
        self.names = {slug: name or slug for slug, name in named}
        field = self.fields["provider"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "The patient chooses"), *self.names.items()]

    def chosen(self) -> tuple[str, str]:
        """Slug and name of the provider; empty where the patient chooses."""
        slug = str(self.cleaned_data["provider"])
        return slug, self.names.get(slug, "")
