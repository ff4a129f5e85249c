"""The values of the order form, with the catalog records that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Final
from uuid import UUID

from django.db.models import Q
from django.utils.dateparse import parse_date
from django.utils.translation import gettext

from backoffice.core.identifiers import UnusableCharacter, clean
from backoffice.core.urls import parse_uuid
from backoffice.service.json_text import JsonObject
from labs.models import Lab, LabAccount, LabTest, Marker, Physician
from orders.commands.importing import USABLE_STATUSES_TO_IMPORT
from orders.commands.placing import USABLE_STATUSES
from orders.models import Order
from orders.placing.account_offers import AccountOffers
from orders.placing.questions import Question, questions_of
from orders.placing.requested_accounts import OrderSource, order_sources
from patients.models import Demographics, Insurance, Patient

FormValues = Mapping[str, Sequence[str]]
"""The values of a submitted form by field name."""

MAX_TESTS: Final = 40
PHYSICIAN_REQUIRED_FLOWS: Final = ("order_delegated", "fully_delegated")
"""Flows of a lab account that require a physician on the order."""
CHOICE_FIELDS: Final = ("tests", "markers")
TYPED_PHYSICIAN: Final = "typed"


@dataclass(eq=False)
class OrderRequest:
    """One order as requested for a patient.

    Each record is read from the mirror once. An import of many orders sets the records that it has
    already read.
    """

    patient: Patient
    person: Demographics | None
    typed: FormValues
    importing: bool = False

    def value(self, name: str) -> str:
        values = self.typed.get(name) or ("",)
        return values[-1].replace("\x00", "").strip()

    def identifier(self, name: str) -> str:
        """Return the value as it is sent and compared; as typed if it has an invalid character."""
        try:
            return clean(self.value(name))
        except UnusableCharacter:
            return self.value(name)

    def date_value(self, name: str) -> date | None:
        try:
            return parse_date(self.value(name))
        except ValueError:
            return None

    @cached_property
    def tests(self) -> list[LabTest]:
        ids = [test_id for text in self.typed.get("tests", ()) if (test_id := parse_uuid(text))]
        rows = LabTest.objects.filter(pk__in=ids[:MAX_TESTS]).select_related("lab")
        return sorted(rows.defer("content_hash"), key=lambda test: ids.index(test.pk))

    @cached_property
    def markers(self) -> list[Marker]:
        """The markers ordered in addition to the tests."""
        ids = [int(text) for text in self.typed.get("markers", ()) if _is_number(text)]
        rows = Marker.objects.filter(pk__in=ids[:MAX_TESTS]).select_related("lab")
        return sorted(rows, key=lambda marker: ids.index(marker.pk))

    @cached_property
    def unknown_choices(self) -> list[tuple[str, str]]:
        """The chosen ids that the catalog does not have: names of fields and values."""
        in_catalog = {str(item.pk) for item in (*self.tests, *self.markers)}
        chosen = [(name, value) for name in CHOICE_FIELDS for value in self.typed.get(name, ())]
        return [
            (name, value)
            for name, value in dict.fromkeys(chosen)
            if value.strip().lower() not in in_catalog
        ]

    @cached_property
    def labs(self) -> list[Lab]:
        """The labs of what is chosen.

        A test that names no lab is at the labs of its markers ("lab | Lab or null", catalogue.md
        2).
        """
        labs = [*(test.lab for test in self.tests), *(marker.lab for marker in self.markers)]
        without_lab = [test.pk for test in self.tests if test.lab is None]
        if without_lab:
            labs_of_markers = Lab.objects.filter(markers__in_tests__lab_test__in=without_lab)
            labs += labs_of_markers.distinct().order_by("pk")
        labs_by_id = {lab.pk: lab for lab in labs if lab}
        return list(labs_by_id.values())

    @property
    def lab(self) -> Lab | None:
        return self.labs[0] if len(self.labs) == 1 else None

    @cached_property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(test.method for test in self.tests))

    @property
    def method(self) -> str:
        """Return the chosen method, or the one that all tests have."""
        chosen = self.value("collection_method")
        return chosen or (self.methods[0] if len(self.methods) == 1 else "")

    @cached_property
    def accounts(self) -> list[LabAccount]:
        """All accounts of this team at the lab."""
        if self.lab is None:
            return []
        is_team_account = Q(teams__team_id=self.patient.team_id)
        rows = LabAccount.objects.filter(is_team_account, lab=self.lab.slug, missing_since=None)
        return list(rows.order_by("account_name", "provider_account_id", "pk"))

    @property
    def usable_statuses(self) -> Sequence[str]:
        return USABLE_STATUSES_TO_IMPORT if self.importing else USABLE_STATUSES

    @property
    def usable_accounts(self) -> list[LabAccount]:
        """Return the accounts to choose from, without that of a replaced order at the wrong lab."""
        usable = (account for account in self.accounts if account.status in self.usable_statuses)
        return [account for account in usable if account != self.incorrect_account]

    @cached_property
    def incorrect_account(self) -> LabAccount | None:
        """The account, at this lab, of the order that this one replaces.

        It is known only if that order was requested here: an order does not have its account
        (orders.md 3).
        """
        pk = self.replaced_order_source.account_id if self.replaced_order_source else None
        return next((account for account in self.accounts if account.pk == pk), None)

    @cached_property
    def account_elsewhere(self) -> LabAccount | None:
        """The chosen account if it is one of another lab.

        It was chosen for other tests and is kept for them. An import states its account itself.
        """
        pk = parse_uuid(self.value("lab_account"))
        if pk is None or self.importing:
            return None
        lab = self.lab.slug if self.lab else None
        return LabAccount.objects.filter(pk=pk).exclude(lab=lab).first()

    @property
    def chosen_account(self) -> str:
        """Return the account chosen for this lab."""
        return "" if self.account_elsewhere else self.value("lab_account")

    @property
    def account(self) -> LabAccount | None:
        """Return the chosen account, or else the only possible one.

        That is the only usable account, or the only one that offers what is ordered, unless the
        account must be chosen again.
        """
        chosen, usable = self.chosen_account, self.usable_accounts
        if chosen:
            return next((account for account in usable if str(account.pk) == chosen), None)
        if self.replaces:
            return None
        return usable[0] if len(usable) == 1 else self.only_offering_account

    @cached_property
    def offers(self) -> AccountOffers:
        """What the accounts of the lab offer of what is ordered."""
        return AccountOffers.read(self.accounts, self.tests, self.markers)

    def lacks(self, account: LabAccount) -> list[str]:
        """Return the names of what is ordered that the account is known not to offer."""
        return self.offers.lacks(account, self.tests, self.markers)

    def is_checked(self, account: LabAccount) -> bool:
        """Whether it is known for everything ordered if the account offers it."""
        return self.offers.is_known(account, self.tests, self.markers)

    def offers_all(self, account: LabAccount) -> bool:
        """Whether the account is known to offer everything ordered."""
        return self.is_checked(account) and not self.lacks(account)

    @property
    def accounts_by_offer(self) -> list[LabAccount]:
        """Return usable accounts: first those that offer all, then those of unknown catalog."""
        return sorted(
            self.usable_accounts,
            key=lambda account: (bool(self.lacks(account)), not self.is_checked(account)),
        )

    @property
    def only_offering_account(self) -> LabAccount | None:
        """Return the account that offers everything, if all others are known to lack something."""
        possible = [account for account in self.usable_accounts if not self.lacks(account)]
        return possible[0] if len(possible) == 1 and self.offers_all(possible[0]) else None

    @property
    def is_account_inferred(self) -> bool:
        """Whether the account follows from what is ordered, among several accounts."""
        return bool(self.account) and not self.chosen_account and len(self.usable_accounts) > 1

    @property
    def needs_physician(self) -> bool:
        return self.account is not None and self.account.delegated_flow in PHYSICIAN_REQUIRED_FLOWS

    @cached_property
    def physicians(self) -> list[Physician]:
        return list(Physician.objects.filter(missing_since=None).order_by("last_name", "npi"))

    @property
    def billing_type(self) -> str:
        return self.value("billing_type") or "client_bill"

    def allowed_states(self, billing_type: str) -> Sequence[str] | None:
        """Return the states where the account allows the billing type; None without account."""
        if self.account is None:
            return None
        states = self.account.record_at("allowed_billing").get(billing_type)
        return [str(state) for state in states] if isinstance(states, list) else []

    @cached_property
    def insurance(self) -> Insurance | None:
        """The current primary insurance."""
        rows = Insurance.objects.filter(user_id=self.patient.pk, is_primary=True)
        return rows.filter(superseded_at=None).order_by("-as_of").first()

    @property
    def default_note(self) -> str:
        return (self.account.default_clinical_notes or "") if self.account else ""

    @property
    def joined_note(self) -> str:
        """Return the note as it will be printed: the typed text, then that of the account."""
        return "\n".join(note for note in (self.note, self.default_note) if note)

    @property
    def note(self) -> str:
        return self.value("clinical_notes").replace("\r\n", "\n")

    @property
    def icd_codes(self) -> list[str]:
        return codes_in(self.value("icd_codes"))

    @cached_property
    def questions(self) -> list[Question]:
        if self.importing:
            return []
        test_markers = Marker.objects.filter(in_tests__lab_test__in=self.tests, has_questions=True)
        by_id = {marker.pk: marker for marker in test_markers.order_by("name", "pk")}
        by_id |= {marker.pk: marker for marker in self.markers}
        return questions_of(by_id.values())

    @property
    def sample_id(self) -> str:
        return self.identifier("sample_id")

    @cached_property
    def order_with_sample_id(self) -> Order | None:
        """The order that already has this sample ID, in any spelling."""
        same_sample = Order.objects.with_sample_id(self.sample_id)
        return same_sample.only("pk", "sample_id").first()

    def has_order_with(self, **values: str) -> bool:
        """Whether an order of this patient has these values on record."""
        return Order.objects.filter(user_id=self.patient.pk, **values).exists()

    @property
    def medical_proxy(self) -> JsonObject:
        """Return the medical proxy of a minor, as the service has it."""
        return self.person.record_at("medical_proxy") if self.person else {}

    @property
    def day_out(self) -> date | None:
        return self.date_value("activate_by")

    @property
    def replaces(self) -> UUID | None:
        return parse_uuid(self.value("replaces"))

    @cached_property
    def replaced_order(self) -> Order | None:
        """The order at the wrong lab that this one replaces, if it is an order of the patient."""
        if self.replaces is None:
            return None
        return (
            Order.objects.filter(pk=self.replaces, user_id=self.patient.pk)
            .with_list_columns()
            .first()
        )

    @cached_property
    def replaced_order_source(self) -> OrderSource | None:
        """The request of that order, with its answers to the lab's questions; None if unknown."""
        return (
            order_sources([self.replaced_order]).get(self.replaced_order.pk)
            if self.replaced_order
            else None
        )

    @property
    def words(self) -> str:
        """Return the names of what is ordered."""
        names = [*(test.name for test in self.tests), *(marker.name for marker in self.markers)]
        return ", ".join(names) or gettext("nothing yet")

    @property
    def chosen_ids(self) -> str:
        """Return the ids of the tests and markers, as the form shows them."""
        return " ".join(str(item.pk) for item in (*self.tests, *self.markers))

    @property
    def shape(self) -> str:
        """Return a text that changes when the fields of the form must be rendered again."""
        account = str(self.account.pk) if self.account else ""
        values = [account, self.value("physician"), self.method, self.billing_type]
        values += [self.value("state").upper(), str(len(self.unknown_choices))]
        return f"{self.chosen_ids}|{' '.join(values)}"


def codes_in(text: str) -> list[str]:
    """Return the typed diagnosis codes in capitals, each once.

    Spaces, commas or semicolons separate them.
    """
    return list(dict.fromkeys(text.upper().replace(",", " ").replace(";", " ").split()))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
