"""Forms for the details and the insurance of a patient, in the order of an insurance card.

The pages that register a person, edit the details and add an insurance have the same fields. So a
value that was typed on one page can be shown on another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from functools import cached_property
from typing import Any, Final, cast
from uuid import UUID

import msgspec
from django import forms
from django.utils import timezone

from backoffice.core.phone_numbers import NotAPhoneNumber, e164
from backoffice.core.vocabulary.data import VOCABULARIES
from backoffice.outbox.forms import CommandForm
from backoffice.service.insurance import NewPayor
from backoffice.service.payload import day
from backoffice.service.users import NewAddress, NewGuarantor, NewUserInfo
from patients.address_choices import COUNTRIES, STATES, US, CountryField, StateField, check_place
from patients.commands import InsuranceRequest
from patients.models import Demographics, Patient
from patients.names import plain_name
from patients.person_record import PATHS, PROXY_NAMES, lives_with_patient, person_body
from patients.references import UnusableReference, clean_reference, new_reference

NAME_LETTERS: Final = 50
ADULT_AGE: Final = 18
MAX_AGE: Final = 130

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.,'-]*(\s[A-Za-z0-9.,'-]+)*")


def is_minor(born: date) -> bool:
    """Whether a person born on this day is under 18 today."""
    today = timezone.localdate()
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day)) < ADULT_AGE


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
            words = "Take out the spaces before, after, or doubled between the words."
        elif plain != name and _NAME.fullmatch(plain):
            words = f"Labs take no accents and no curly marks: write {plain}, if that is right."
        elif not name[0].isalnum():
            words = "Begin with a letter or a digit."
        else:
            words = "Write letters, digits and . , ' - only, with single spaces between words."
        raise forms.ValidationError(words)


class PhoneField(forms.CharField):
    """A phone number, cleaned to E.164. The error says what is wrong with it."""

    widget = forms.TextInput(attrs={"type": "tel", "inputmode": "tel"})

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        try:
            return e164(text) if text else text
        except NotAPhoneNumber as error:
            raise forms.ValidationError(error.words) from None


def _choices(name: str, empty: str) -> list[tuple[str, str]]:
    known = [(value, term.label) for value, term in VOCABULARIES[name].items()]
    return [("", empty), *known]


def _choice(label: str, name: str, *, required: bool = False) -> forms.ChoiceField:
    empty = "Choose" if required else "Not asked"
    return forms.ChoiceField(label=label, required=required, choices=_choices(name, empty))


def _text(label: str, letters: int = 200, **options: Any) -> forms.CharField:
    return forms.CharField(label=label, max_length=letters, **options)


def _state(*, required: bool = True) -> StateField:
    return StateField(label="State", required=required, max_length=60)


def _zip(*, required: bool = True) -> forms.CharField:
    return _text("ZIP code", 20, required=required)


def _country() -> CountryField:
    return CountryField(label="Country", required=False, max_length=60, initial=US)


def _day(label: str, **options: Any) -> forms.DateField:
    return forms.DateField(
        label=label, widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"), **options
    )


class BlockForm(CommandForm):
    """A form with groups of fields that are required only in some cases.

    The fields themselves are not required; `clean` requires them.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            verb = "Choose" if isinstance(field, forms.ChoiceField) else "Give"
            field.error_messages["required"] = f"{verb} the {str(field.label).lower()}."

    state_codes: Final = STATES
    country_codes: Final = COUNTRIES

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
        shared = home is not None and data[f"{prefix}same_address"]
        if shared and home is not None:
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

    def require_person(self, prefix: str, who: str, *, at_home: bool = True) -> None:
        """Require name and phone, and an address unless the person lives with the patient."""
        names = {
            f"{prefix}first_name": f"Give the first name of {who}.",
            f"{prefix}last_name": f"Give the last name of {who}.",
            f"{prefix}phone_number": f"Give a phone number of {who}.",
        }
        if not (at_home and self.cleaned_data.get(f"{prefix}same_address")):
            names |= {
                f"{prefix}first_line": f"Give the street of {who}.",
                f"{prefix}city": f"Give the city of {who}.",
                f"{prefix}state": f"Choose the state of {who}.",
                f"{prefix}zip": f"Give the ZIP code of {who}.",
            }
        self.require(names)


OPEN_CHOICES: Final = (
    "gender",
    "race",
    "ethnicity",
    "sexual_orientation",
    "gender_identity",
)


class PersonForm(BlockForm):
    """The details of a patient (users.md 3)."""

    first_name = NameField(label="First name")
    last_name = NameField(label="Last name")
    dob = _day("Birth date")
    gender = _choice("Sex", "person.gender", required=True)
    phone_number = PhoneField(label="Phone", max_length=32)
    email = forms.EmailField(label="E-mail", max_length=200)
    first_line = _text("Street address")
    second_line = _text("Apartment, unit", required=False)
    city = _text("City", 100)
    state = _state()
    zip = _zip()
    country = _country()
    access_notes = _text(
        "Access notes",
        1000,
        required=False,
        help_text="For the phlebotomist: gate, door, dog.",
    )
    proxy_first_name = NameField(label="First name", required=False)
    proxy_last_name = NameField(label="Last name", required=False)
    proxy_phone_number = PhoneField(label="Phone", max_length=32, required=False)
    proxy_email = forms.EmailField(label="E-mail", max_length=200, required=False)
    proxy_same_address = forms.BooleanField(
        label="Lives with the patient", required=False, initial=True
    )
    proxy_first_line = _text("Street address", required=False)
    proxy_second_line = _text("Apartment, unit", required=False)
    proxy_city = _text("City", 100, required=False)
    proxy_state = _state(required=False)
    proxy_zip = _zip(required=False)
    proxy_country = _country()
    race = _choice("Race", "person.race")
    ethnicity = _choice("Ethnicity", "person.ethnicity")
    sexual_orientation = _choice("Sexual orientation", "person.sexual_orientation")
    gender_identity = _choice("Gender identity", "person.gender_identity")
    seen = forms.CharField(required=False, widget=forms.HiddenInput, max_length=64)
    before = forms.CharField(required=False, widget=forms.HiddenInput, max_length=20_000)
    """The values that the person saw in each field, as JSON. Only fields they changed are saved."""

    def __init__(self, *args: Any, on_record: Demographics | None = None, **more: Any) -> None:
        """Set the details at the service, `on_record`.

        Unchanged fields are not validated, and unknown values of choice fields stay.
        """
        super().__init__(*args, **more)
        self.record: dict[str, Any] = on_record.record_at() if on_record else {}
        self.now: dict[str, Any] = displayed_values(on_record) if on_record else {}
        for name in OPEN_CHOICES:
            field, value = self.fields[name], self.now.get(name)
            assert isinstance(field, forms.ChoiceField)
            if value and not field.valid_value(value):
                field.choices = [*cast(list[tuple[str, str]], field.choices), (value, value)]

    @cached_property
    def unchanged(self) -> dict[str, Any]:
        """Return the fields that still have the value that the person saw, with these values."""
        if not self.is_bound or not self.now:
            return {}
        return {
            name: value
            for name, value in self._before().items()
            if name in self.fields and self._typed_text(name) == _shown_text(value)
        }

    @property
    def changed(self) -> set[str]:
        return set(PATHS) - self.unchanged.keys() | ({"proxy_same_address"} - self.unchanged.keys())

    def _before(self) -> dict[str, Any]:
        """Return the values that the person saw, or the current ones if the form has none."""
        try:
            sent = json.loads(self.data.get("before") or "{}")
        except ValueError:
            sent = {}
        before = sent if isinstance(sent, dict) else {}
        dates = {"dob": day(str(before["dob"]))} if before.get("dob") else {}
        return {**self.now, **before, **dates}

    def _typed_text(self, name: str) -> str:
        widget = self.fields[name].widget
        return _shown_text(widget.value_from_datadict(self.data, self.files, name))

    def _clean_fields(self) -> None:
        super()._clean_fields()  # type: ignore[misc]
        for name, value in self.unchanged.items():
            self.errors.pop(name, None)
            self.cleaned_data[name] = value

    def require(self, names: Mapping[str, str]) -> None:
        super().require(
            {name: words for name, words in names.items() if name not in self.unchanged}
        )

    def check_address(self, prefix: str) -> None:
        lines = {f"{prefix}{line}" for line in ("state", "zip", "country")}
        if not lines <= self.unchanged.keys():
            super().check_address(prefix)

    def rebase(self, mark: str) -> None:
        """Show the current value in every field that the person did not change.

        `mark`: the digest of the current details.
        """
        if not self.data:
            return
        data = self.data.copy()  # type: ignore[attr-defined]
        for name in self.unchanged:
            value = self.now.get(name)
            data[name] = "on" if value is True else _shown_text(value)
        data["seen"], data["before"] = mark, encode_before(self.now)
        self.data = data

    def clean_dob(self) -> date:
        born: date = self.cleaned_data["dob"]
        today = timezone.localdate()
        if born > today:
            raise forms.ValidationError("The birth date lies in the future.")
        if today.year - born.year > MAX_AGE:
            raise forms.ValidationError("Check the year: nobody is that old.")
        return born

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        born = data.get("dob")
        known = {"dob", *PROXY_NAMES} <= self.unchanged.keys()
        if born is not None and is_minor(born) and not known:
            self.require_person("proxy_", "the medical proxy: the patient is under 18")
        elif self.has_any("proxy_first_name", "proxy_last_name", "proxy_phone_number"):
            self.require_person("proxy_", "the medical proxy")
        self.check_address("")
        self.check_address("proxy_")
        return data

    def not_same(self) -> list[UUID]:
        """Return the possible duplicates that the person declared to be different people."""
        return self._ids("not_same")

    def shown(self) -> list[UUID]:
        """Return the possible duplicates that were on the page when it was sent."""
        return self._ids("shown")

    def _ids(self, name: str) -> list[UUID]:
        found = []
        for text in getattr(self.data, "getlist", lambda name: [])(name)[:100]:
            try:
                found.append(UUID(text))
            except ValueError:
                continue
        return found

    def body(self) -> dict[str, Any]:
        """Return the whole record with the person's changes."""
        return person_body(self.record, self.cleaned_data, self.changed)

    def info(self) -> NewUserInfo:
        """Return the record of a new person."""
        return msgspec.convert(self.body(), NewUserInfo)


class InsuranceForm(BlockForm):
    """An insurance card (users.md 4). The value of `payor` is a code, a space and a name."""

    needs_insurance = True

    payor_query = _text("Insurance company", 100, required=False)
    payor = forms.CharField(label="Insurance company", required=False, max_length=300)
    payor_new = forms.BooleanField(
        label="Not in the list: add it as a company of our own", required=False
    )
    payor_name = _text("Name of the company", required=False)
    payor_first_line = _text("Street address", required=False)
    payor_second_line = _text("Suite", required=False)
    payor_city = _text("City", 100, required=False)
    payor_state = _state(required=False)
    payor_zip = _zip(required=False)
    payor_country = _country()
    member_id = _text("Member ID", 60, required=False)
    group_id = _text("Group ID", 60, required=False)
    relationship = forms.ChoiceField(
        label="Relationship to policyholder",
        required=False,
        choices=_choices("insurance.relationship", "")[1:],
    )
    rank = forms.ChoiceField(
        label="Kind",
        required=False,
        choices=[("primary", "Primary"), ("secondary", "Secondary")],
    )
    before_primary = forms.CharField(required=False, widget=forms.HiddenInput, max_length=64)
    before_secondary = forms.CharField(required=False, widget=forms.HiddenInput, max_length=64)
    guarantor_first_name = NameField(label="First name", required=False)
    guarantor_last_name = NameField(label="Last name", required=False)
    guarantor_phone_number = PhoneField(label="Phone", max_length=32, required=False)
    guarantor_email = forms.EmailField(label="E-mail", max_length=200, required=False)
    guarantor_same_address = forms.BooleanField(
        label="Lives with the patient", required=False, initial=True
    )
    guarantor_first_line = _text("Street address", required=False)
    guarantor_second_line = _text("Apartment, unit", required=False)
    guarantor_city = _text("City", 100, required=False)
    guarantor_state = _state(required=False)
    guarantor_zip = _zip(required=False)
    guarantor_country = _country()

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not self.has_insurance:
            return data
        if data.get("payor_new"):
            self.require(
                {
                    "payor_name": "Give the name of the insurance company.",
                    "payor_first_line": "Give the street of the insurance company.",
                    "payor_city": "Give the city of the insurance company.",
                    "payor_state": "Choose the state of the insurance company.",
                    "payor_zip": "Give the ZIP code of the insurance company.",
                }
            )
        else:
            self.require({"payor": "Search for the insurance company and choose it."})
        self.require({"member_id": "Enter the member ID: it is on the card."})
        if data.get("relationship") not in ("Self", ""):
            self.require_person("guarantor_", "the guarantor: the policy holder is someone else")
        self.check_address("payor_")
        self.check_address("guarantor_")
        return data

    @property
    def has_insurance(self) -> bool:
        """Whether the form has an insurance to record."""
        wanted = ("payor", "payor_new", "payor_query", "member_id", "group_id")
        return self.needs_insurance or self.has_any(*wanted)

    def insurance_request(self, home: NewAddress | None) -> InsuranceRequest:
        """Return the insurance to record. `home`: the patient's address, for the guarantor."""
        data = self.cleaned_data
        code, _, name = data["payor"].partition(" ")
        new_payor = None
        if data["payor_new"]:
            code, name = "", data["payor_name"]
            new_payor = NewPayor(name=name, address=self.address("payor_"))
        relationship = data["relationship"] or "Self"
        guarantor = None
        if relationship != "Self":  # Some labs refuse a guarantor for the patient's own policy.
            guarantor = self.guarantor("guarantor_", home)
        rank = data["rank"] or "primary"
        return InsuranceRequest(
            payor_code=code,
            payor_name=name,
            member_id=data["member_id"],
            group_id=data["group_id"] or None,
            relationship=relationship,
            guarantor=guarantor,
            is_primary=rank == "primary",
            new_payor=new_payor,
            before=data[f"before_{rank}"],
        )


class FinishRegistrationForm(PersonForm, InsuranceForm):
    """The rest of a registration: the user exists, but the service refused the details."""

    needs_insurance = False
    field_order = ("form_id", *PersonForm.base_fields)


class RegisterForm(FinishRegistrationForm):
    """The registration of a person, with or without an insurance."""

    field_order = ("form_id", *PersonForm.base_fields, "client_user_id")

    client_user_id = forms.CharField(
        label="Reference",
        max_length=200,
        initial=new_reference,
        help_text="Made at random. The service sees it, so it must not contain anything personal.",
    )

    def clean_client_user_id(self) -> str:
        try:
            reference = clean_reference(
                self.cleaned_data["client_user_id"],
                [self.cleaned_data.get(name, "") for name in ("first_name", "last_name")],
            )
        except UnusableReference as error:
            raise forms.ValidationError(error.words) from error
        if Patient.objects.with_reference(reference).exists():
            raise forms.ValidationError("Another patient has this reference. Give a new one.")
        return reference


def _shown_text(value: Any) -> str:
    """Return a value as its field shows it, to compare it with the typed text."""
    if value in (None, False):
        return ""
    return str(value).replace("\r\n", "\n").strip()


def encode_before(values: Mapping[str, Any]) -> str:
    """Return the shown values as JSON for the hidden field `before`."""
    return json.dumps(values, default=str)


def displayed_values(person: Demographics) -> dict[str, Any]:
    """Return the values that a form shows for stored details."""
    proxy, home = person.record_at("medical_proxy"), person.record_at("address")
    together = lives_with_patient(person.record_at())
    proxy_address = {} if together else person.record_at("medical_proxy", "address")
    return {
        "first_name": person.first_name,
        "last_name": person.last_name,
        "dob": person.dob,
        "gender": person.gender.lower(),
        "phone_number": person.phone_number,
        "email": person.email,
        "first_line": person.first_line,
        "second_line": person.second_line,
        "city": person.city,
        "state": person.state,
        "zip": person.zip,
        "country": person.country or US,
        "access_notes": home.get("access_notes") or "",
        "race": person.race or "",
        "ethnicity": person.ethnicity or "",
        "sexual_orientation": person.sexual_orientation or "",
        "gender_identity": person.gender_identity or "",
        **{
            f"proxy_{name}": _shown_text(proxy.get(name))
            for name in ("first_name", "last_name", "phone_number", "email")
        },
        "proxy_same_address": together,
        **{
            f"proxy_{name}": _shown_text(proxy_address.get(name))
            for name in ("first_line", "second_line", "city", "state")
        },
        "proxy_zip": _shown_text(proxy_address.get("zip") or proxy_address.get("zip_code")),
        "proxy_country": _shown_text(proxy_address.get("country")) or US,
    }
