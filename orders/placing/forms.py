"""The fields of an order to be placed or imported, as its wish makes them."""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from django import forms
from django.http import QueryDict

from backoffice import outbox
from backoffice.core import vocabulary
from backoffice.core.urls import query_of
from backoffice.pages.drafts import WRITTEN
from labs.models import LabAccount
from orders.commands.placing import USABLE_STATUSES
from orders.placing.order_request import TYPED_PHYSICIAN, Wish
from orders.placing.questions import Question

NOTE_LETTERS: Final = 1000
PERSON: Final = ("first_name", "last_name", "dob", "gender", "phone_number", "email")
ADDRESS: Final = ("first_line", "second_line", "city", "state", "zip")
KEPT_OUT: Final = (
    *("csrfmiddlewaretoken", "form_id", "do", "shape", "panel", "diagnosis", "add_code", WRITTEN),
)
"""What a form sends that is no part of the order."""
_GENDERS: Final = ("female", "male", "other", "unknown")


def _text(label: str, letters: int = 100, **more: Any) -> forms.CharField:
    return forms.CharField(label=label, max_length=letters, required=False, **more)


def _day(label: str, **more: Any) -> forms.DateField:
    """Read in the one way in which a wish reads it."""
    widget = forms.DateInput({"type": "date"})
    return forms.DateField(
        label=label, required=False, widget=widget, input_formats=["%Y-%m-%d"], **more
    )


class OpenChoiceField(forms.ChoiceField):
    """A choice that shows whatever was chosen before, also where that cannot be chosen any more."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid_choice": "“%(value)s” cannot be chosen here any more. Choose again."
    }
    _kept = ""

    def keep(self, value: str, words: str) -> None:
        """Show `value` among the choices; it is accepted only where it is one of them already."""
        if value and not self.valid_value(value):
            self._kept = value
            self.choices = [*cast(list[tuple[str, str]], self.choices), (value, words)]

    def valid_value(self, value: Any) -> bool:
        return str(value) != self._kept and super().valid_value(value)


class PlaceForm(forms.Form):
    """Nothing is required by itself: what is missing is a finding, which says why."""

    WHO: ClassVar[tuple[str, ...]] = (*PERSON, *ADDRESS)

    first_name = _text("First name")
    last_name = _text("Last name")
    dob = _day("Birth date")
    gender = OpenChoiceField(label="Sex", required=False)
    phone_number = _text("Phone", 40, widget=forms.TextInput({"type": "tel"}))
    email = _text("E-mail", 254, widget=forms.TextInput({"type": "email"}))
    first_line = _text("Street address")
    second_line = _text("Second line")
    city = _text("City")
    state = _text("State", 40, help_text="Two letters.")
    zip = _text("ZIP code", 10, widget=forms.TextInput({"inputmode": "numeric"}))
    collection_method = OpenChoiceField(label="Collected", required=False)
    lab_account = OpenChoiceField(label="Lab account", required=False)
    physician = OpenChoiceField(label="Physician who orders", required=False)
    physician_first_name = _text("Physician’s first name")
    physician_last_name = _text("Physician’s last name")
    physician_npi = _text("Physician’s NPI", 20, widget=forms.TextInput({"inputmode": "numeric"}))
    billing_type = OpenChoiceField(label="Billing", required=False)
    icd_codes = _text(
        "Diagnosis codes",
        400,
        help_text="ICD-10, with spaces between them: E11.9 Z00.00. Needed where insurance pays.",
    )
    clinical_notes = forms.CharField(
        label="Note to the lab", required=False, widget=forms.Textarea({"rows": 3})
    )
    activate_by = _day("Send it out on", help_text="Leave it empty to send it out now.")
    priority = forms.BooleanField(label="Urgent (STAT), where the lab offers it", required=False)
    sample_id = _text("Sample ID", 100, help_text="Requisition, control or reference number.")
    another = forms.BooleanField(label="Yes, order it another time", required=False)

    def __init__(self, wish: Wish) -> None:
        super().__init__(query_of(wish.typed))
        self.wish = wish
        for name in ("sample_id",) if not wish.importing else ("clinical_notes", "activate_by"):
            del self.fields[name]
        if wish.importing:
            for name in ("icd_codes", "priority", "another"):
                del self.fields[name]
        self._choices("gender", gender_choices(wish))
        self._choices("collection_method", method_choices(wish))
        self._choices("lab_account", account_choices(wish))
        known = [
            (one.npi, f"{one.first_name} {one.last_name}, NPI {one.npi}") for one in wish.physicians
        ]
        other = [(TYPED_PHYSICIAN, "Another one")]
        self._choices("physician", [("", "Choose"), *known, *other])
        self._choices("billing_type", billing_choices(wish))
        for question in wish.questions:
            self.fields[question.name] = _answer(question, wish.one(question.name))
        for field in self.fields.values():
            if isinstance(field.widget, forms.TextInput | forms.Textarea):
                # Letters typed while an answer is under way outlive it.
                field.widget.attrs["hx-preserve"] = "true"

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field, chosen = self.fields[name], self.wish.one(name)
        assert isinstance(field, OpenChoiceField)
        field.choices = choices
        field.keep(chosen, f"{chosen}: not known here")

    def of(self, *names: str) -> list[forms.BoundField]:
        return [self[name] for name in names if name in self.fields]

    @property
    def person_fields(self) -> list[forms.BoundField]:
        return self.of(*PERSON, *ADDRESS)

    @property
    def answers(self) -> list[forms.BoundField]:
        return self.of(*(question.name for question in self.wish.questions))

    @property
    def answered(self) -> list[tuple[str, str]]:
        """What is asked and what was answered, in the lab's words."""
        told = ((question, self.wish.one(question.name)) for question in self.wish.questions)
        return [(one.label, dict(one.answers).get(given, given)) for one, given in told]


def account_words(account: LabAccount) -> str:
    name = account.account_name or "Account"
    return f"{name}, number {account.provider_account_id}"


def account_label(wish: Wish, account: LabAccount) -> str:
    """The account, with its status where orders cannot be placed under it, and what it lacks of
    what is ordered."""
    words = account_words(account)
    if account.status not in USABLE_STATUSES:
        words += f", {vocabulary.term('lab_account.status', account.status).label.lower()}"
    if lacks := wish.lacks(account):
        return f"{words} (does not offer: {', '.join(lacks)})"
    if (wish.tests or wish.markers) and not wish.is_checked(account):
        return f"{words} (could not check what it offers)"
    return words


def gender_choices(wish: Wish) -> list[tuple[str, str]]:
    """Those we have words for, and the one on record."""
    values = list(_GENDERS)
    values.append(vocabulary.canonical("person.gender", wish.patient.gender).lower())
    known = _terms("person.gender", dict.fromkeys(value for value in values if value))
    return [("", "Choose"), *known]


def account_choices(wish: Wish) -> list[tuple[str, str]]:
    """Those that can be used, with what they lack of what is ordered; those that lack nothing come
    first. One that was chosen for another lab stays, with a word; so does that of an order at the
    wrong lab, which cannot be chosen again."""
    usable = wish.accounts_by_offer
    choices = [(str(account.pk), account_label(wish, account)) for account in usable]
    if wish.is_chosen_by_offer and wish.account is not None:
        only = f"{account_words(wish.account)}: the only one that offers everything ordered"
        choices.insert(0, ("", only))
    elif len(usable) != 1 or wish.replaces or wish.chosen_account:
        choices.insert(0, ("", "Choose the account"))
    incorrect = wish.incorrect_account
    if incorrect is not None:
        choices.append(
            (str(incorrect.pk), f"{account_words(incorrect)}: used for the canceled order")
        )
    elsewhere = wish.account_elsewhere
    if elsewhere is not None:
        choices.append((str(elsewhere.pk), f"{account_words(elsewhere)}: not at this lab"))
    return choices


def method_choices(wish: Wish) -> list[tuple[str, str]]:
    """What the lab offers; one that was chosen before stays, with a word where it does not."""
    offered = wish.lab.collection_methods if wish.lab and not wish.importing else []
    chosen = wish.one("collection_method")
    values = [*vocabulary.VOCABULARIES["order.method"], *offered, *wish.methods]
    if chosen and chosen not in values and wish.ordered_with(method=chosen):
        values.append(chosen)
    choices = [("", "As the tests say" if len(wish.methods) == 1 else "Choose")]
    for value, words in _terms("order.method", dict.fromkeys(filter(None, values))):
        if not offered or value in offered:
            choices.append((value, words))
        elif value == chosen or value in wish.methods:
            choices.append((value, f"{words}: not at this lab"))
    return choices


def billing_choices(wish: Wish) -> list[tuple[str, str]]:
    """Every type, each with a word where the account does not allow it in the patient's state."""
    state, chosen = wish.one("state").upper(), wish.one("billing_type")
    values = [*vocabulary.VOCABULARIES["order.billing_type"]]
    values += wish.account.said("allowed_billing") if wish.account else ()
    if chosen and chosen not in values and wish.ordered_with(billing_type=chosen):
        values.append(chosen)
    choices = []
    for value, words in _terms("order.billing_type", dict.fromkeys(values)):
        states = wish.states_of(value)
        refused = states is not None and state not in states
        choices.append((value, f"{words}: not in {state or 'this state'}" if refused else words))
    return choices


def typed_of(data: QueryDict) -> dict[str, list[str]]:
    """What of a sent form is the order's."""
    return outbox.storable_values(data, KEPT_OUT)


def _answer(question: Question, given: str) -> forms.Field:
    more: dict[str, Any] = {
        "label": question.label,
        "required": False,
        "help_text": ". ".join(text for text in (question.marker, question.hint) if text),
    }
    if question.is_choice:
        field = OpenChoiceField(choices=[("", "Choose"), *question.answers], **more)
        field.keep(given, f"{given}: not offered any more")
        return field
    if question.type == "numeric":
        return forms.DecimalField(widget=forms.TextInput({"inputmode": "decimal"}), **more)
    return forms.CharField(max_length=500, **more)


def _terms(name: str, values: Any) -> list[tuple[str, str]]:
    return [(value, vocabulary.term(name, value).label) for value in values]
