"""Fields of the registration forms, and the base of these forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.utils.translation import gettext, gettext_lazy

from backoffice.core.phone_numbers import NotAPhoneNumber, e164
from backoffice.core.vocabulary.data import VOCABULARIES
from backoffice.outbox.forms import CommandForm
from backoffice.service.users import NewAddress, NewGuarantor
from patients.address_choices import COUNTRIES, STATES, US, CountryField, StateField, check_place
from patients.search_keys import plain_name

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NAME_LETTERS: Final = 50
PERSON_NAMES: Final = ("first_name", "last_name", "phone_number")
PERSON_ADDRESS: Final = ("first_line", "city", "state", "zip")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.,'-]*(\s[A-Za-z0-9.,'-]+)*")


class NameField(forms.CharField):
    """A name as labs accept it (orders.md 2.4). The value is never changed silently."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_length": NAME_LETTERS, "strip": False, **options})

    def clean(self, value: Any) -> str:
        name: str = super().clean(value)
        if not name or _NAME.fullmatch(name):
            return name
        plain = plain_name(name)
        if name != name.strip() or "  " in name:
            words = gettext("Remove extra spaces before, after or between the words.")
        elif plain != name and _NAME.fullmatch(plain):
            words = gettext(
                "Labs do not accept accents or curly quotes. Use %(name)s if that is correct."
            ) % {"name": plain}
        elif not name[0].isalnum():
            words = gettext("Start with a letter or a number.")
        else:
            words = gettext(
                "Use only letters, numbers, periods, commas, apostrophes and hyphens, with single"
                " spaces between words."
            )
        raise forms.ValidationError(words)


class PhoneField(forms.CharField):
    """A phone number, cleaned to E.164. The error says what is wrong with it."""

    widget = forms.TextInput(attrs={"type": "tel", "inputmode": "tel"})

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        try:
            return e164(text) if text else text
        except NotAPhoneNumber as error:
            raise forms.ValidationError(gettext(error.words)) from None


def vocabulary_choices(name: str, empty: StrOrPromise) -> list[tuple[str, StrOrPromise]]:
    """Return the choices of a vocabulary, after an empty one with this label."""
    terms = VOCABULARIES[name].items()
    return [("", empty), *((value, gettext_lazy(term.label)) for value, term in terms)]


def choice_field(label: StrOrPromise, name: str, *, required: bool = False) -> forms.ChoiceField:
    empty = gettext_lazy("Choose") if required else gettext_lazy("Not specified")
    return forms.ChoiceField(
        label=label, required=required, choices=vocabulary_choices(name, empty)
    )


def text_field(label: StrOrPromise, letters: int = 200, **options: Any) -> forms.CharField:
    return forms.CharField(label=label, max_length=letters, **options)


def state_field(*, required: bool = True) -> StateField:
    return StateField(label=gettext_lazy("State"), required=required, max_length=60)


def zip_field(*, required: bool = True) -> forms.CharField:
    return text_field(gettext_lazy("ZIP code"), 20, required=required)


def country_field() -> CountryField:
    return CountryField(label=gettext_lazy("Country"), required=False, max_length=60, initial=US)


def date_field(label: StrOrPromise, **options: Any) -> forms.DateField:
    return forms.DateField(
        label=label, widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"), **options
    )


class BlockForm(CommandForm):
    """A form with groups of fields that are required only in some cases.

    The fields themselves are not required; `clean` requires them.
    """

    state_codes: Final = STATES
    country_codes: Final = COUNTRIES

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            field.error_messages["required"] = gettext("%(field)s is required.") % {
                "field": field.label
            }

    def require(self, names: Mapping[str, str]) -> None:
        """Add the error to each of these fields that is empty."""
        for name, words in names.items():
            if not self.cleaned_data.get(name) and name not in self.errors:
                self.add_error(name, words)

    def has_any(self, *names: str) -> bool:
        """Whether any of these fields has a value."""
        return any(self.cleaned_data.get(name) for name in names)

    def check_address(self, prefix: str) -> None:
        """Check state and ZIP code for the country."""

        def add_error(name: str, words: str) -> None:
            if name not in self.errors:
                self.add_error(name, words)

        check_place(self.cleaned_data, prefix, add_error)

    def address(self, prefix: str) -> NewAddress:
        """Return the address from the fields with this prefix."""
        data = self.cleaned_data
        return NewAddress(
            first_line=data[f"{prefix}first_line"],
            second_line=data.get(f"{prefix}second_line") or None,
            city=data[f"{prefix}city"],
            state=data[f"{prefix}state"],
            zip=data[f"{prefix}zip"],
            country=data.get(f"{prefix}country") or US,
            access_notes=data.get(f"{prefix}access_notes") or None,
        )

    def guarantor(self, prefix: str, home: NewAddress | None) -> NewGuarantor:
        """Return the guarantor or proxy. `home`: the patient's address, which they may share."""
        data = self.cleaned_data
        if home is not None and data[f"{prefix}same_address"]:
            address = NewAddress(
                first_line=home.first_line,
                second_line=home.second_line,
                city=home.city,
                state=home.state,
                zip=home.zip,
                country=home.country,
            )
        else:
            address = self.address(prefix)
        return NewGuarantor(
            first_name=data[f"{prefix}first_name"],
            last_name=data[f"{prefix}last_name"],
            phone_number=data[f"{prefix}phone_number"],
            email=data[f"{prefix}email"] or None,
            address=address,
        )

    def require_person(self, prefix: str, errors: Mapping[str, str]) -> None:
        """Require name and phone, and an address unless the person lives with the patient.

        `errors`: the error of each field, by its name without the prefix.
        """
        names: tuple[str, ...] = PERSON_NAMES
        if not self.cleaned_data.get(f"{prefix}same_address"):
            names += PERSON_ADDRESS
        self.require({f"{prefix}{name}": gettext(errors[name]) for name in names})
