"""The fields of an order to be placed or imported, as its wish makes them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django import forms
from django.http import QueryDict

from backoffice import outbox, vocabulary
from backoffice.addresses import query_of
from backoffice.drafts import WRITTEN
from labs.models import LabAccount
from orders.placing.questions import Question
from orders.placing.wish import TYPED_PHYSICIAN, Wish

NOTE_LETTERS: Final = 1000
PERSON: Final = ("first_name", "last_name", "dob", "gender", "phone_number", "email")
ADDRESS: Final = ("first_line", "second_line", "city", "state", "zip")
KEPT_OUT: Final = ("csrfmiddlewaretoken", "form_id", "do", "shape", "panel", WRITTEN)
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


class PlaceForm(forms.Form):
    """Nothing is required by itself: what is missing is a finding, which says why."""

    WHO: ClassVar[tuple[str, ...]] = (*PERSON, *ADDRESS)

    first_name = _text("First name")
    last_name = _text("Last name")
    dob = _day("Birth date")
    gender = forms.ChoiceField(label="Sex", required=False)
    phone_number = _text("Phone", 40, widget=forms.TextInput({"type": "tel"}))
    email = _text("E-mail", 254, widget=forms.TextInput({"type": "email"}))
    first_line = _text("Street address")
    second_line = _text("Second line")
    city = _text("City")
    state = _text("State", 40, help_text="Two letters.")
    zip = _text("ZIP code", 10, widget=forms.TextInput({"inputmode": "numeric"}))
    collection_method = forms.ChoiceField(label="Collected", required=False)
    lab_account = forms.ChoiceField(label="Lab account", required=False)
    physician = forms.ChoiceField(label="Physician who orders", required=False)
    physician_first_name = _text("Physician’s first name")
    physician_last_name = _text("Physician’s last name")
    physician_npi = _text("Physician’s NPI", 20, widget=forms.TextInput({"inputmode": "numeric"}))
    billing_type = forms.ChoiceField(label="Billing", required=False)
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
        self._choices("gender", [("", "Choose"), *_terms("person.gender", _GENDERS)])
        self._choices("collection_method", method_choices(wish))
        usable = [(str(account.pk), account_words(account)) for account in wish.usable_accounts]
        first = [] if len(usable) == 1 and not wish.replaces else [("", "Choose the account")]
        self._choices("lab_account", [*first, *usable])
        known = [
            (one.npi, f"{one.first_name} {one.last_name}, NPI {one.npi}") for one in wish.physicians
        ]
        other = [(TYPED_PHYSICIAN, "Another one")]
        self._choices("physician", [("", "Choose"), *known, *other])
        self._choices("billing_type", billing_choices(wish))
        for question in wish.questions:
            self.fields[question.name] = _answer(question)
        for field in self.fields.values():
            if isinstance(field.widget, forms.TextInput | forms.Textarea):
                # Letters typed while an answer is under way outlive it.
                field.widget.attrs["hx-preserve"] = "true"

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

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


def method_choices(wish: Wish) -> list[tuple[str, str]]:
    """What the lab offers; one that was chosen before stays, with a word where it does not."""
    known = _terms("order.method", vocabulary.VOCABULARIES["order.method"])
    offered = wish.lab.collection_methods if wish.lab and not wish.importing else []
    chosen = wish.one("collection_method")
    choices = [("", "As the tests say" if len(wish.methods) == 1 else "Choose")]
    for value, words in known:
        if not offered or value in offered:
            choices.append((value, words))
        elif value == chosen:
            choices.append((value, f"{words}: not at this lab"))
    return choices


def billing_choices(wish: Wish) -> list[tuple[str, str]]:
    """Every type, each with a word where the account does not allow it in the patient's state."""
    state = wish.one("state").upper()
    choices = []
    for value in vocabulary.VOCABULARIES["order.billing_type"]:
        states = wish.states_of(value)
        refused = states is not None and state not in states
        words = vocabulary.term("order.billing_type", value).label
        choices.append((value, f"{words}: not in {state or 'this state'}" if refused else words))
    return choices


def typed_of(data: QueryDict) -> dict[str, list[str]]:
    """What of a sent form is the order's."""
    return outbox.kept(data, KEPT_OUT)


def _answer(question: Question) -> forms.Field:
    more: dict[str, Any] = {
        "label": question.label,
        "required": False,
        "help_text": ". ".join(text for text in (question.marker, question.hint) if text),
    }
    if question.is_choice:
        return forms.ChoiceField(choices=[("", "Choose"), *question.answers], **more)
    if question.type == "numeric":
        return forms.DecimalField(widget=forms.TextInput({"inputmode": "decimal"}), **more)
    return forms.CharField(max_length=500, **more)


def _terms(name: str, values: Any) -> list[tuple[str, str]]:
    return [(value, vocabulary.term(name, value).label) for value in values]
