"""What stands in the form, with the records of the catalogue that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django.db.models import Q
from django.utils.dateparse import parse_date

from backoffice.core.identifiers import UnusableCharacter, clean
from backoffice.core.urls import uuid_in
from labs.models import Lab, LabAccount, LabTest, Marker, Physician
from orders.commands.importing import USABLE_STATUSES_TO_IMPORT
from orders.commands.placing import USABLE_STATUSES
from orders.models import Order
from orders.placing.account_offers import AccountOffers
from orders.placing.questions import Question, questions_of
from orders.placing.requested_accounts import OrderSource, order_sources
from patients.models import Demographics, Insurance, Patient

Typed = Mapping[str, Sequence[str]]
"""A form as sent: names to values."""

MOST_TESTS: Final = 40
PHYSICIAN_NEEDED: Final = ("order_delegated", "fully_delegated")
"""What a lab account says where the order must name its physician."""
CHOSEN: Final = ("tests", "markers")
TYPED_PHYSICIAN: Final = "typed"


@dataclass(frozen=True)
class Wish:
    """One order as wished for a patient. Reads the catalogue's mirror, each thing once."""

    patient: Patient
    person: Demographics | None
    typed: Typed
    importing: bool = False

    def one(self, name: str) -> str:
        values = self.typed.get(name) or ("",)
        return values[-1].replace("\x00", "").strip()

    def identifier(self, name: str) -> str:
        """As it is sent and compared; as typed where it has a character that none may have."""
        try:
            return clean(self.one(name))
        except UnusableCharacter:
            return self.one(name)

    def day(self, name: str) -> date | None:
        try:
            return parse_date(self.one(name))
        except ValueError:
            return None

    @cached_property
    def tests(self) -> list[LabTest]:
        ids = [found for text in self.typed.get("tests", ()) if (found := uuid_in(text))]
        rows = LabTest.objects.filter(pk__in=ids[:MOST_TESTS]).select_related("lab")
        return sorted(rows.defer("content_hash"), key=lambda test: ids.index(test.pk))

    @cached_property
    def markers(self) -> list[Marker]:
        """Ordered beside the tests."""
        ids = [int(text) for text in self.typed.get("markers", ()) if _is_number(text)]
        rows = Marker.objects.filter(pk__in=ids[:MOST_TESTS]).select_related("lab")
        return sorted(rows, key=lambda marker: ids.index(marker.pk))

    @cached_property
    def lost(self) -> list[tuple[str, str]]:
        """Chosen things that the catalogue does not have: names of fields and values."""
        known = {str(one.pk) for one in (*self.tests, *self.markers)}
        chosen = [(name, value) for name in CHOSEN for value in self.typed.get(name, ())]
        return [one for one in dict.fromkeys(chosen) if one[1].strip().lower() not in known]

    @cached_property
    def labs(self) -> list[Lab]:
        """Labs of what is chosen; a test that names none is at the labs of its markers
        ("lab | Lab or null", catalogue.md 2)."""
        labs = [*(test.lab for test in self.tests), *(marker.lab for marker in self.markers)]
        without = [test.pk for test in self.tests if test.lab is None]
        if without:
            of_markers = Lab.objects.filter(markers__in_tests__lab_test__in=without)
            labs += of_markers.distinct().order_by("pk")
        found = {lab.pk: lab for lab in labs if lab}
        return list(found.values())

    @property
    def lab(self) -> Lab | None:
        return self.labs[0] if len(self.labs) == 1 else None

    @cached_property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(test.method for test in self.tests))

    @property
    def method(self) -> str:
        """As chosen, or the one that all tests have."""
        chosen = self.one("collection_method")
        return chosen or (self.methods[0] if len(self.methods) == 1 else "")

    @cached_property
    def accounts(self) -> list[LabAccount]:
        """All that this team has at the lab."""
        if self.lab is None:
            return []
        of_team = Q(teams__team_id=self.patient.team_id)
        rows = LabAccount.objects.filter(of_team, lab=self.lab.slug, missing_since=None)
        return list(rows.order_by("account_name", "provider_account_id", "pk"))

    @property
    def usable_statuses(self) -> Sequence[str]:
        return USABLE_STATUSES_TO_IMPORT if self.importing else USABLE_STATUSES

    @property
    def usable_accounts(self) -> list[LabAccount]:
        """Accounts to choose from: never that of an order at the wrong lab that is replaced."""
        usable = (account for account in self.accounts if account.status in self.usable_statuses)
        return [account for account in usable if account != self.incorrect_account]

    @cached_property
    def incorrect_account(self) -> LabAccount | None:
        """The account, among those of this lab, of the order that this one replaces, where that
        order was requested from here. An order does not show its account (orders.md 3)."""
        pk = self.replaced_source.account_id if self.replaced_source else None
        return next((account for account in self.accounts if account.pk == pk), None)

    @cached_property
    def account_elsewhere(self) -> LabAccount | None:
        """The account that was chosen, where that is one of another lab: the choice was made for
        other tests and waits for them. An import says what its account is."""
        pk = uuid_in(self.one("lab_account"))
        if pk is None or self.importing:
            return None
        lab = self.lab.slug if self.lab else None
        return LabAccount.objects.filter(pk=pk).exclude(lab=lab).first()

    @property
    def chosen_account(self) -> str:
        """As chosen for this lab."""
        return "" if self.account_elsewhere else self.one("lab_account")

    @property
    def account(self) -> LabAccount | None:
        """As chosen; else the only one there is, or that offers what is ordered, unless it must be
        chosen anew."""
        chosen, usable = self.chosen_account, self.usable_accounts
        if chosen:
            return next((one for one in usable if str(one.pk) == chosen), None)
        if self.replaces:
            return None
        return usable[0] if len(usable) == 1 else self.only_offering_account

    @cached_property
    def offers(self) -> AccountOffers:
        """What the lab's accounts offer of what is ordered."""
        return AccountOffers.read(self.accounts, self.tests, self.markers)

    def lacks(self, account: LabAccount) -> list[str]:
        """Names of what is ordered that the account is known not to offer."""
        return self.offers.lacks(account, self.tests, self.markers)

    def is_checked(self, account: LabAccount) -> bool:
        """Whether it is known of everything ordered if the account offers it."""
        return self.offers.is_known(account, self.tests, self.markers)

    def offers_all(self, account: LabAccount) -> bool:
        """Whether the account is known to offer everything ordered."""
        return self.is_checked(account) and not self.lacks(account)

    @property
    def accounts_by_offer(self) -> list[LabAccount]:
        """Usable accounts: those that offer everything ordered first, then those with an unknown
        catalog."""
        return sorted(
            self.usable_accounts,
            key=lambda one: (bool(self.lacks(one)), not self.is_checked(one)),
        )

    @property
    def only_offering_account(self) -> LabAccount | None:
        """The account that is chosen by what is ordered: it offers everything, and each of the
        others is known to lack something."""
        possible = [one for one in self.usable_accounts if not self.lacks(one)]
        return possible[0] if len(possible) == 1 and self.offers_all(possible[0]) else None

    @property
    def is_chosen_by_offer(self) -> bool:
        """Whether the account was chosen among several, by what is ordered."""
        return bool(self.account) and not self.chosen_account and len(self.usable_accounts) > 1

    @property
    def needs_physician(self) -> bool:
        return self.account is not None and self.account.delegated_flow in PHYSICIAN_NEEDED

    @cached_property
    def physicians(self) -> list[Physician]:
        return list(Physician.objects.filter(missing_since=None).order_by("last_name", "npi"))

    @property
    def billing_type(self) -> str:
        return self.one("billing_type") or "client_bill"

    def states_of(self, billing_type: str) -> Sequence[str] | None:
        """Where the account allows it; None where no account says."""
        if self.account is None:
            return None
        states = self.account.said("allowed_billing").get(billing_type)
        return [str(state) for state in states] if isinstance(states, list) else []

    @cached_property
    def insurance(self) -> Insurance | None:
        """The primary one in force."""
        rows = Insurance.objects.filter(user_id=self.patient.pk, is_primary=True)
        return rows.filter(superseded_at=None).order_by("-as_of").first()

    @property
    def default_note(self) -> str:
        return (self.account.default_clinical_notes or "") if self.account else ""

    @property
    def joined_note(self) -> str:
        """As it will print: ours, then the account's own."""
        return "\n".join(note for note in (self.note, self.default_note) if note)

    @property
    def note(self) -> str:
        return self.one("clinical_notes").replace("\r\n", "\n")

    @property
    def icd_codes(self) -> list[str]:
        return codes_in(self.one("icd_codes"))

    @cached_property
    def questions(self) -> list[Question]:
        if self.importing:
            return []
        of_tests = Marker.objects.filter(in_tests__lab_test__in=self.tests, has_questions=True)
        by_id = {marker.pk: marker for marker in of_tests.order_by("name", "pk")}
        by_id |= {marker.pk: marker for marker in self.markers}
        return questions_of(by_id.values())

    @property
    def sample_id(self) -> str:
        return self.identifier("sample_id")

    @cached_property
    def same_sample(self) -> Order | None:
        """An order that has this sample ID already, in whatever spelling."""
        found = Order.objects.with_sample_id(self.sample_id)
        return found.only("pk", "sample_id").first()

    def ordered_with(self, **values: str) -> bool:
        """Whether an order of this patient has these values on record."""
        return Order.objects.filter(user_id=self.patient.pk, **values).exists()

    @property
    def proxy(self) -> dict[str, Any]:
        """Who answers for a minor, as the service has it."""
        return self.person.said("medical_proxy") if self.person else {}

    @property
    def day_out(self) -> date | None:
        return self.day("activate_by")

    @property
    def replaces(self) -> UUID | None:
        return uuid_in(self.one("replaces"))

    @cached_property
    def replaced(self) -> Order | None:
        """The order at the wrong lab that this one replaces, if it is one of the patient."""
        if self.replaces is None:
            return None
        return (
            Order.objects.filter(pk=self.replaces, user_id=self.patient.pk)
            .with_list_columns()
            .first()
        )

    @cached_property
    def replaced_source(self) -> OrderSource | None:
        """What that order was requested with, its answers to the lab's questions among it; None
        where that is not known."""
        return order_sources([self.replaced]).get(self.replaced.pk) if self.replaced else None

    @property
    def words(self) -> str:
        """What is ordered: names."""
        names = [*(test.name for test in self.tests), *(marker.name for marker in self.markers)]
        return ", ".join(names) or "nothing yet"

    @property
    def chosen(self) -> str:
        """The tests and markers, as the form says what it showed."""
        return " ".join(str(one.pk) for one in (*self.tests, *self.markers))

    @property
    def shape(self) -> str:
        """What the fields of the form hang on: when it changes, they are rendered anew."""
        account = str(self.account.pk) if self.account else ""
        hinges = [account, self.one("physician"), self.method, self.billing_type]
        hinges += [self.one("state").upper(), str(len(self.lost))]
        return f"{self.chosen}|{' '.join(hinges)}"


def codes_in(text: str) -> list[str]:
    """Diagnosis codes as typed, each once: in capitals, with spaces, commas or semicolons between
    them."""
    return list(dict.fromkeys(text.upper().replace(",", " ").replace(";", " ").split()))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
