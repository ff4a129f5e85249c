"""Forms for the details and the insurance of a patient, in the order of an insurance card.

The pages that register a person, edit the details and add an insurance have the same fields. So a
value that was typed on one page can be shown on another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from functools import cached_property
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec
from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.pages.form_fields import choices_of
from backoffice.service.insurance import NewPayor
from backoffice.service.json_text import JsonObject
from backoffice.service.payload import parse_day
from backoffice.service.users import NewAddress, NewUserInfo
from patients.address_choices import US
from patients.commands import InsuranceRequest
from patients.commands.patients import REFERENCE_TAKEN
from patients.form_fields import (
    BlockForm,
    NameField,
    PhoneField,
    choice_field,
    country_field,
    date_field,
    state_field,
    text_field,
    vocabulary_choices,
    zip_field,
)
from patients.models import Demographics, Patient
from patients.person_record import PATHS, PROXY_NAMES, lives_with_patient, person_body
from patients.references import UnusableReference, clean_reference, new_reference

FormValue: TypeAlias = str | bool | date | None
ADULT_AGE: Final = 18
MAX_AGE: Final = 130
MINOR_WITHOUT_PROXY: Final = gettext_noop(
    "Enter the first name of the medical proxy. Patients under 18 need one."
)
PROXY_ERRORS: Final = {
    "first_name": gettext_noop("Enter the first name of the medical proxy."),
    "last_name": gettext_noop("Enter the last name of the medical proxy."),
    "phone_number": gettext_noop("Enter the phone number of the medical proxy."),
    "first_line": gettext_noop("Enter the street address of the medical proxy."),
    "city": gettext_noop("Enter the city of the medical proxy."),
    "state": gettext_noop("Enter the state of the medical proxy."),
    "zip": gettext_noop("Enter the ZIP code of the medical proxy."),
}
GUARANTOR_ERRORS: Final = {
    "first_name": gettext_noop(
        "Enter the first name of the guarantor, because the patient is not the policyholder."
    ),
    "last_name": gettext_noop("Enter the last name of the guarantor."),
    "phone_number": gettext_noop("Enter the phone number of the guarantor."),
    "first_line": gettext_noop("Enter the street address of the guarantor."),
    "city": gettext_noop("Enter the city of the guarantor."),
    "state": gettext_noop("Enter the state of the guarantor."),
    "zip": gettext_noop("Enter the ZIP code of the guarantor."),
}
"""The errors of the fields of a proxy and of a guarantor, by name without the prefix."""


def is_minor(born: date) -> bool:
    """Whether a person born on this day is under 18 today."""
    today = timezone.localdate()
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day)) < ADULT_AGE


OPEN_CHOICES: Final = (
    "gender",
    "race",
    "ethnicity",
    "sexual_orientation",
    "gender_identity",
)


class PersonForm(BlockForm):
    """The details of a patient (users.md 3)."""

    first_name = NameField(label=gettext_lazy("First name"))
    last_name = NameField(label=gettext_lazy("Last name"))
    dob = date_field(gettext_lazy("Birth date"))
    gender = choice_field(gettext_lazy("Sex"), "person.gender", required=True)
    phone_number = PhoneField(label=gettext_lazy("Phone"), max_length=32)
    email = forms.EmailField(label=gettext_lazy("Email"), max_length=200)
    first_line = text_field(gettext_lazy("Street address"))
    second_line = text_field(gettext_lazy("Apt or unit"), required=False)
    city = text_field(gettext_lazy("City"), 100)
    state = state_field()
    zip = zip_field()
    country = country_field()
    access_notes = text_field(
        gettext_lazy("Access notes"),
        1000,
        required=False,
        help_text=gettext_lazy("For the phlebotomist, such as a gate code or a dog."),
    )
    proxy_first_name = NameField(label=gettext_lazy("First name"), required=False)
    proxy_last_name = NameField(label=gettext_lazy("Last name"), required=False)
    proxy_phone_number = PhoneField(label=gettext_lazy("Phone"), max_length=32, required=False)
    proxy_email = forms.EmailField(label=gettext_lazy("Email"), max_length=200, required=False)
    proxy_same_address = forms.BooleanField(
        label=gettext_lazy("Lives with the patient"), required=False, initial=True
    )
    proxy_first_line = text_field(gettext_lazy("Street address"), required=False)
    proxy_second_line = text_field(gettext_lazy("Apt or unit"), required=False)
    proxy_city = text_field(gettext_lazy("City"), 100, required=False)
    proxy_state = state_field(required=False)
    proxy_zip = zip_field(required=False)
    proxy_country = country_field()
    race = choice_field(gettext_lazy("Race"), "person.race")
    ethnicity = choice_field(gettext_lazy("Ethnicity"), "person.ethnicity")
    sexual_orientation = choice_field(
        gettext_lazy("Sexual orientation"), "person.sexual_orientation"
    )
    gender_identity = choice_field(gettext_lazy("Gender identity"), "person.gender_identity")
    seen = forms.CharField(required=False, widget=forms.HiddenInput, max_length=64)
    before = forms.CharField(required=False, widget=forms.HiddenInput, max_length=20_000)
    """The values that the person saw, as JSON by field. Only changed fields are saved."""

    def __init__(self, *args: Any, on_record: Demographics | None = None, **more: Any) -> None:
        """Create the form for the details at the service, `on_record`.

        Unchanged fields are not validated, and unknown values of choice fields stay.
        """
        super().__init__(*args, **more)
        self.record: JsonObject = on_record.record_at() if on_record else {}
        self.stored: dict[str, FormValue] = displayed_values(on_record) if on_record else {}
        for name in OPEN_CHOICES:
            field, value = self.fields[name], self.stored.get(name)
            assert isinstance(field, forms.ChoiceField)
            if value and not field.valid_value(value):
                field.choices = [*choices_of(field), (value, str(value))]

    @cached_property
    def unchanged(self) -> dict[str, FormValue]:
        """Return the fields that still have the value that the person saw, with these values."""
        if not self.is_bound or not self.stored:
            return {}
        return {
            name: value
            for name, value in self._before().items()
            if name in self.fields and self._typed_text(name) == _shown_text(value)
        }

    @property
    def changed(self) -> set[str]:
        return set(PATHS) - self.unchanged.keys() | ({"proxy_same_address"} - self.unchanged.keys())

    def _before(self) -> dict[str, FormValue]:
        """Return the values that the person saw, or the current ones if the form has none."""
        try:
            values = json.loads(self.data.get("before") or "{}")
        except ValueError:
            values = {}
        before = values if isinstance(values, dict) else {}
        dates = {"dob": parse_day(str(before["dob"]))} if before.get("dob") else {}
        return {**self.stored, **before, **dates}

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

    def rebase(self, digest: str) -> None:
        """Show the current value in every field that the person did not change.

        `digest`: that of the current details.
        """
        if not isinstance(self.data, QueryDict):  # The form is unbound and has no data.
            return
        data = self.data.copy()
        for name in self.unchanged:
            value = self.stored.get(name)
            data[name] = "on" if value is True else _shown_text(value)
        data["seen"], data["before"] = digest, encode_before(self.stored)
        self.data = data

    def clean_dob(self) -> date:
        born: date = self.cleaned_data["dob"]
        today = timezone.localdate()
        if born > today:
            raise forms.ValidationError(gettext("The birth date is in the future."))
        if today.year - born.year > MAX_AGE:
            raise forms.ValidationError(
                gettext("Check the year. The patient would be over %(age)s years old.")
                % {"age": MAX_AGE}
            )
        return born

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        born = data.get("dob")
        is_unchanged = {"dob", *PROXY_NAMES} <= self.unchanged.keys()
        if born is not None and is_minor(born) and not is_unchanged:
            self.require_person("proxy_", {**PROXY_ERRORS, "first_name": MINOR_WITHOUT_PROXY})
        elif self.has_any("proxy_first_name", "proxy_last_name", "proxy_phone_number"):
            self.require_person("proxy_", PROXY_ERRORS)
        self.check_address("")
        self.check_address("proxy_")
        return data

    def not_same(self) -> list[UUID]:
        """Return the possible duplicates that the person declared to be different people."""
        return self._ids("not_same")

    def shown_ids(self) -> list[UUID]:
        """Return the possible duplicates that were on the page when it was sent."""
        return self._ids("shown")

    def _ids(self, name: str) -> list[UUID]:
        ids = []
        texts = self.data.getlist(name) if isinstance(self.data, QueryDict) else []
        for text in texts[:100]:
            try:
                ids.append(UUID(text))
            except ValueError:
                continue
        return ids

    def body(self) -> JsonObject:
        """Return the whole record with the person's changes."""
        return person_body(self.record, self.cleaned_data, self.changed)

    def info(self) -> NewUserInfo:
        """Return the record of a new person."""
        return msgspec.convert(self.body(), NewUserInfo)


class InsuranceForm(BlockForm):
    """An insurance card (users.md 4). The value of `payor` is a code, a space and a name."""

    needs_insurance = True

    payor_query = text_field(gettext_lazy("Insurance company"), 100, required=False)
    payor = forms.CharField(label=gettext_lazy("Insurance company"), required=False, max_length=300)
    payor_new = forms.BooleanField(
        label=gettext_lazy("Not listed? Add custom payer"), required=False
    )
    payor_name = text_field(gettext_lazy("Insurance company name"), required=False)
    payor_first_line = text_field(gettext_lazy("Street address"), required=False)
    payor_second_line = text_field(gettext_lazy("Suite"), required=False)
    payor_city = text_field(gettext_lazy("City"), 100, required=False)
    payor_state = state_field(required=False)
    payor_zip = zip_field(required=False)
    payor_country = country_field()
    member_id = text_field(gettext_lazy("Member ID"), 60, required=False)
    group_id = text_field(gettext_lazy("Group ID"), 60, required=False)
    relationship = forms.ChoiceField(
        label=gettext_lazy("Relationship to policyholder"),
        required=False,
        choices=vocabulary_choices("insurance.relationship", "")[1:],
    )
    rank = forms.ChoiceField(
        label=gettext_lazy("Coverage"),
        required=False,
        choices=[
            ("primary", gettext_lazy("Primary")),
            ("secondary", gettext_lazy("Secondary")),
        ],
    )
    before_primary = forms.CharField(required=False, widget=forms.HiddenInput, max_length=64)
    before_secondary = forms.CharField(required=False, widget=forms.HiddenInput, max_length=64)
    guarantor_first_name = NameField(label=gettext_lazy("First name"), required=False)
    guarantor_last_name = NameField(label=gettext_lazy("Last name"), required=False)
    guarantor_phone_number = PhoneField(label=gettext_lazy("Phone"), max_length=32, required=False)
    guarantor_email = forms.EmailField(label=gettext_lazy("Email"), max_length=200, required=False)
    guarantor_same_address = forms.BooleanField(
        label=gettext_lazy("Lives with the patient"), required=False, initial=True
    )
    guarantor_first_line = text_field(gettext_lazy("Street address"), required=False)
    guarantor_second_line = text_field(gettext_lazy("Apt or unit"), required=False)
    guarantor_city = text_field(gettext_lazy("City"), 100, required=False)
    guarantor_state = state_field(required=False)
    guarantor_zip = zip_field(required=False)
    guarantor_country = country_field()

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not self.has_insurance:
            return data
        if data.get("payor_new"):
            self.require(
                {
                    "payor_name": gettext("Enter the name of the insurance company."),
                    "payor_first_line": gettext(
                        "Enter the street address of the insurance company."
                    ),
                    "payor_city": gettext("Enter the city of the insurance company."),
                    "payor_state": gettext("Enter the state of the insurance company."),
                    "payor_zip": gettext("Enter the ZIP code of the insurance company."),
                }
            )
        else:
            self.require({"payor": gettext("Search for the insurance company and choose it.")})
        self.require({"member_id": gettext("Enter the member ID from the insurance card.")})
        if data.get("relationship") not in ("Self", ""):
            self.require_person("guarantor_", GUARANTOR_ERRORS)
        self.check_address("payor_")
        self.check_address("guarantor_")
        return data

    @property
    def has_insurance(self) -> bool:
        """Whether the form has an insurance to record."""
        names = ("payor", "payor_new", "payor_query", "member_id", "group_id")
        return self.needs_insurance or self.has_any(*names)

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
        label=gettext_lazy("Reference"),
        max_length=200,
        initial=new_reference,
        help_text=gettext_lazy(
            "Randomly generated; shared with the lab service. Do not include personal information."
        ),
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
            raise forms.ValidationError(gettext(REFERENCE_TAKEN))
        return reference


def _shown_text(value: object) -> str:
    """Return a value as its field shows it, to compare it with the typed text."""
    if value in (None, False):
        return ""
    return str(value).replace("\r\n", "\n").strip()


def encode_before(values: Mapping[str, object]) -> str:
    """Return the shown values as JSON for the hidden field `before`."""
    return json.dumps(values, default=str)


def displayed_values(person: Demographics) -> dict[str, FormValue]:
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
