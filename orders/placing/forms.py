"""The form of an order to place or import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext, gettext_lazy

from backoffice.core import vocabulary
from backoffice.core.urls import build_query
from backoffice.outbox.enqueueing import WRITTEN, storable_values
from labs.models import LabAccount
from orders.commands.placing import USABLE_STATUSES
from orders.placing.order_request import TYPED_PHYSICIAN, OrderRequest
from orders.placing.questions import Question

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NOTE_LETTERS: Final = 1000
PERSON: Final = ("first_name", "last_name", "dob", "gender", "phone_number", "email")
ADDRESS: Final = ("first_line", "second_line", "city", "state", "zip")
EXCLUDED_FIELDS: Final = (
    *("csrfmiddlewaretoken", "form_id", "do", "shape", "panel", "diagnosis", "add_code", WRITTEN),
)
"""Fields of the form that are not part of the order."""
_GENDERS: Final = ("female", "male", "other", "unknown")


def _text(label: StrOrPromise, letters: int = 100, **more: Any) -> forms.CharField:
    return forms.CharField(label=label, max_length=letters, required=False, **more)


def _day(label: StrOrPromise, **more: Any) -> forms.DateField:
    """Return a field that accepts dates only in the format that `OrderRequest` reads."""
    widget = forms.DateInput({"type": "date"})
    return forms.DateField(
        label=label, required=False, widget=widget, input_formats=["%Y-%m-%d"], **more
    )


class OpenChoiceField(forms.ChoiceField):
    """A choice that also shows its current value if that cannot be chosen any more."""

    default_error_messages: ClassVar = {
        "invalid_choice": gettext_lazy("“%(value)s” is no longer available. Choose again.")
    }
    _current = ""

    def offer(self, choices: Sequence[tuple[str, str]], current: str, words: str) -> None:
        """Set the choices, and show `current` after them, with this text, if it is none of them.

        It is not accepted.
        """
        self.choices = choices
        if current and not self.valid_value(current):
            self._current = current
            self.choices = [*choices, (current, words)]

    def valid_value(self, value: object) -> bool:
        return str(value) != self._current and super().valid_value(value)


class PlaceForm(forms.Form):
    """The fields of an order. None is required: a missing value is a finding with a reason."""

    WHO: ClassVar[tuple[str, ...]] = (*PERSON, *ADDRESS)

    first_name = _text(gettext_lazy("First name"))
    last_name = _text(gettext_lazy("Last name"))
    dob = _day(gettext_lazy("Birth date"))
    gender = OpenChoiceField(label=gettext_lazy("Sex"), required=False)
    phone_number = _text(gettext_lazy("Phone"), 40, widget=forms.TextInput({"type": "tel"}))
    email = _text(gettext_lazy("Email"), 254, widget=forms.TextInput({"type": "email"}))
    first_line = _text(gettext_lazy("Street address"))
    second_line = _text(gettext_lazy("Apt, suite, unit"))
    city = _text(gettext_lazy("City"))
    state = _text(gettext_lazy("State"), 40, help_text=gettext_lazy("Two letters."))
    zip = _text(gettext_lazy("ZIP code"), 10, widget=forms.TextInput({"inputmode": "numeric"}))
    collection_method = OpenChoiceField(label=gettext_lazy("Collection"), required=False)
    lab_account = OpenChoiceField(label=gettext_lazy("Lab account"), required=False)
    physician = OpenChoiceField(label=gettext_lazy("Ordering physician"), required=False)
    physician_first_name = _text(gettext_lazy("Physician’s first name"))
    physician_last_name = _text(gettext_lazy("Physician’s last name"))
    physician_npi = _text(
        gettext_lazy("Physician’s NPI"), 20, widget=forms.TextInput({"inputmode": "numeric"})
    )
    billing_type = OpenChoiceField(label=gettext_lazy("Billing"), required=False)
    icd_codes = _text(
        gettext_lazy("Diagnosis codes"),
        400,
        help_text=gettext_lazy(
            "ICD-10 codes separated by spaces, such as E11.9 Z00.00. Required if insurance is "
            "billed."
        ),
    )
    clinical_notes = forms.CharField(
        label=gettext_lazy("Note to the lab"), required=False, widget=forms.Textarea({"rows": 3})
    )
    activate_by = _day(
        gettext_lazy("Release on"), help_text=gettext_lazy("Leave blank to release now.")
    )
    priority = forms.BooleanField(
        label=gettext_lazy("Urgent (STAT), if the lab offers it"), required=False
    )
    sample_id = _text(
        gettext_lazy("Sample ID"),
        100,
        help_text=gettext_lazy("Requisition, control, or reference number."),
    )
    another = forms.BooleanField(label=gettext_lazy("Order again"), required=False)

    def __init__(self, order_request: OrderRequest) -> None:
        super().__init__(build_query(order_request.typed))
        self.order_request = order_request
        for name in (
            ("sample_id",) if not order_request.importing else ("clinical_notes", "activate_by")
        ):
            del self.fields[name]
        if order_request.importing:
            for name in ("icd_codes", "priority", "another"):
                del self.fields[name]
        self._set_choices("gender", gender_choices(order_request))
        self._set_choices("collection_method", method_choices(order_request))
        self._set_choices("lab_account", account_choices(order_request))
        physicians = [
            (physician.npi, f"{physician.first_name} {physician.last_name}, NPI {physician.npi}")
            for physician in order_request.physicians
        ]
        other = (TYPED_PHYSICIAN, gettext("Other physician"))
        self._set_choices("physician", [("", gettext("Choose")), *physicians, other])
        self._set_choices("billing_type", billing_choices(order_request))
        for question in order_request.questions:
            self.fields[question.name] = _answer(question, order_request.value(question.name))
        for field in self.fields.values():
            if isinstance(field.widget, forms.TextInput | forms.Textarea):
                # Letters that are typed while a response loads must not be lost.
                field.widget.attrs["hx-preserve"] = "true"

    def _set_choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field, chosen = self.fields[name], self.order_request.value(name)
        assert isinstance(field, OpenChoiceField)
        field.offer(choices, chosen, gettext("%(value)s (unknown)") % {"value": chosen})

    def bound_fields(self, *names: str) -> list[forms.BoundField]:
        return [self[name] for name in names if name in self.fields]

    @property
    def person_fields(self) -> list[forms.BoundField]:
        return self.bound_fields(*PERSON, *ADDRESS)

    @property
    def answers(self) -> list[forms.BoundField]:
        return self.bound_fields(*(question.name for question in self.order_request.questions))

    @property
    def answered(self) -> list[tuple[str, str]]:
        """Return the questions of the lab and their answers, in the wording of the lab."""
        answered = (
            (question, self.order_request.value(question.name))
            for question in self.order_request.questions
        )
        return [
            (question.label, dict(question.answers).get(text, text)) for question, text in answered
        ]


def account_text(account: LabAccount) -> str:
    return gettext("%(account)s, number %(number)s") % {
        "account": account.account_name or gettext("Account"),
        "number": account.provider_account_id,
    }


def account_label(order_request: OrderRequest, account: LabAccount) -> str:
    """Return the account's name, its status if unusable, and what it does not offer."""
    words = account_text(account)
    if account.status not in USABLE_STATUSES:
        status = gettext(vocabulary.term("lab_account.status", account.status).label)
        words = f"{words}, {status.lower()}"
    if lacks := order_request.lacks(account):
        return gettext("%(account)s (does not offer: %(tests)s)") % {
            "account": words,
            "tests": ", ".join(lacks),
        }
    if (order_request.tests or order_request.markers) and not order_request.is_checked(account):
        return gettext("%(account)s (could not check what it offers)") % {"account": words}
    return words


def gender_choices(order_request: OrderRequest) -> list[tuple[str, str]]:
    """Return the known values, and the one on record."""
    values = list(_GENDERS)
    values.append(vocabulary.canonical("person.gender", order_request.patient.gender).lower())
    return [("", gettext("Choose")), *_terms("person.gender", dict.fromkeys(filter(None, values)))]


def account_choices(order_request: OrderRequest) -> list[tuple[str, str]]:
    """Return the usable accounts with what they do not offer; those that offer everything first.

    An account that was chosen for another lab stays a choice, with a note. The account of an order
    at the wrong lab also stays, but cannot be chosen again.
    """
    usable = order_request.accounts_by_offer
    choices = [(str(account.pk), account_label(order_request, account)) for account in usable]
    if order_request.is_account_inferred and order_request.account is not None:
        only = gettext("%(account)s (the only one that offers everything ordered)") % {
            "account": account_text(order_request.account)
        }
        choices.insert(0, ("", only))
    elif len(usable) != 1 or order_request.replaces or order_request.chosen_account:
        choices.insert(0, ("", gettext("Choose the account")))
    incorrect = order_request.incorrect_account
    if incorrect is not None:
        words = gettext("%(account)s (used for the canceled order)") % {
            "account": account_text(incorrect)
        }
        choices.append((str(incorrect.pk), words))
    elsewhere = order_request.account_elsewhere
    if elsewhere is not None:
        words = gettext("%(account)s (not at this lab)") % {"account": account_text(elsewhere)}
        choices.append((str(elsewhere.pk), words))
    return choices


def method_choices(order_request: OrderRequest) -> list[tuple[str, str]]:
    """Return the methods that the lab offers.

    A method that was chosen before stays a choice, with a note if the lab does not offer it.
    """
    offered = (
        order_request.lab.collection_methods
        if order_request.lab and not order_request.importing
        else []
    )
    chosen = order_request.value("collection_method")
    values = [*vocabulary.VOCABULARIES["order.method"], *offered, *order_request.methods]
    if chosen and chosen not in values and order_request.has_order_with(method=chosen):
        values.append(chosen)
    has_default = len(order_request.methods) == 1
    choices = [("", gettext("Test default") if has_default else gettext("Choose"))]
    for value, words in _terms("order.method", dict.fromkeys(filter(None, values))):
        if not offered or value in offered:
            choices.append((value, words))
        elif value == chosen or value in order_request.methods:
            choices.append((value, gettext("%(method)s (not at this lab)") % {"method": words}))
    return choices


def billing_choices(order_request: OrderRequest) -> list[tuple[str, str]]:
    """Return every type, with a note if the account does not allow it in the patient's state."""
    state, chosen = order_request.value("state").upper(), order_request.value("billing_type")
    values = [*vocabulary.VOCABULARIES["order.billing_type"]]
    values += order_request.account.record_at("allowed_billing") if order_request.account else ()
    if chosen and chosen not in values and order_request.has_order_with(billing_type=chosen):
        values.append(chosen)
    choices = []
    for value, words in _terms("order.billing_type", dict.fromkeys(values)):
        states = order_request.allowed_states(value)
        if states is not None and state not in states:
            words = (
                gettext("%(billing)s (not in %(state)s)") % {"billing": words, "state": state}
                if state
                else gettext("%(billing)s (not in this state)") % {"billing": words}
            )
        choices.append((value, words))
    return choices


def order_values(data: QueryDict) -> dict[str, list[str]]:
    """Return the values of a submitted form that are part of the order."""
    return storable_values(data, EXCLUDED_FIELDS)


def _answer(question: Question, initial: str) -> forms.Field:
    more: dict[str, Any] = {
        "label": question.label,
        "required": False,
        "help_text": ". ".join(text for text in (question.marker, question.hint) if text),
    }
    if question.is_choice:
        field = OpenChoiceField(**more)
        choices = [("", gettext("Choose")), *question.answers]
        words = gettext("%(value)s (no longer offered)") % {"value": initial}
        field.offer(choices, initial, words)
        return field
    if question.type == "numeric":
        return forms.DecimalField(widget=forms.TextInput({"inputmode": "decimal"}), **more)
    return forms.CharField(max_length=500, **more)


def _terms(name: str, values: Iterable[str]) -> list[tuple[str, str]]:
    return [(value, gettext(vocabulary.term(name, value).label)) for value in values]
