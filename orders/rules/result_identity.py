"""Check whether a result names the patient of its order.

Pages and delegation compare at the time of the request, so they include demographics that change or
arrive later. The queue reads `Review.identity`, which is written with every result and every change
of demographics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from django.db import connection
from django.utils import timezone
from django.utils.translation import gettext

from backoffice.core.prepared_queries import array
from backoffice.service.json_text import JsonObject
from backoffice.service.written_times import read_written_time
from orders.models.order import Order
from orders.models.result import Result
from orders.models.review import Review
from patients.identity_comparison import (
    Agreement,
    combine_agreements,
    compare_ages,
    compare_birth_dates,
    compare_names,
)
from patients.models import Demographics


@dataclass(frozen=True, slots=True)
class IdentityFact:
    """One fact about the person: as printed on the result, and as recorded for the patient."""

    label: str
    printed: str
    known: str | date | None
    agreement: Agreement

    @property
    def is_date(self) -> bool:
        return isinstance(self.known, date)


@dataclass(frozen=True, slots=True)
class IdentityCheck:
    """The comparison of the person on a result with the patient."""

    facts: tuple[IdentityFact, ...] = ()
    age: str = ""
    """The printed age. It is one of the facts only if no birth date can be compared."""

    @property
    def agreement(self) -> Agreement:
        return combine_agreements(fact.agreement for fact in self.facts)

    @property
    def contradicts(self) -> bool:
        return self.agreement is Agreement.DIFFERENT

    @property
    def printed(self) -> str:
        return "\n".join(fact.printed for fact in self.facts)

    @property
    def possible_prints(self) -> tuple[str, str]:
        """All values that `printed` can have for this result, for any patient."""
        name_and_birth_date = "\n".join(fact.printed for fact in self.facts[:2])
        return name_and_birth_date, f"{name_and_birth_date}\n{self.age}"

    @property
    def is_same(self) -> bool:
        return self.agreement is Agreement.SAME


def check_identity(
    result: Result | None, order: Order | None, person: Demographics | None
) -> IdentityCheck:
    """Compare name and birth date, or the age if the result has no readable birth date.

    Values missing in the demographics are taken from the order.
    """
    if result is None:
        return IdentityCheck()
    metadata: JsonObject = result.record_at("metadata")
    first, last, born = _recorded_person(order, person)
    name, printed_born, age = (_text(metadata.get(key)) for key in ("patient", "dob", "age"))
    facts = [
        IdentityFact(
            gettext("Name"), name, f"{first} {last}".strip(), compare_names(name, first, last)
        ),
        IdentityFact(
            gettext("Birth date"), printed_born, born, compare_birth_dates(printed_born, born)
        ),
    ]
    if facts[1].agreement is Agreement.UNKNOWN and age:
        on = _age_day(metadata, order)
        facts.append(IdentityFact(gettext("Age"), age, born, compare_ages(age, born, on)))
    return IdentityCheck(tuple(facts), age)


def _recorded_person(
    order: Order | None, person: Demographics | None
) -> tuple[str, str, date | None]:
    first, last, born = "", "", None
    if person is not None:
        first, last, born = person.first_name, person.last_name, person.dob
    if order is not None:
        if not (first or last):
            first, last = order.patient_first_name, order.patient_last_name
        born = born or order.patient_dob
    return first, last, born


def _text(value: object) -> str:
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value).strip() if is_text else ""


def _age_day(metadata: JsonObject, order: Order | None) -> date:
    """Return the approximate day for which the laboratory stated an age."""
    for key in ("date_collected", "date_received", "date_reported"):
        if day := read_written_time(_text(metadata.get(key))).day:
            return day
    return order.created_at.date() if order else timezone.localdate()


def current_identity(order_id: UUID) -> IdentityCheck:
    """Return the comparison for one order with its current records: three queries."""
    return checks_by_order([order_id]).get(order_id, IdentityCheck())


def checks_by_order(order_ids: Iterable[UUID]) -> dict[UUID, IdentityCheck]:
    """Return the comparison for each order that has a result: three queries."""
    keys = list(order_ids)
    results = Result.objects.in_bulk(keys)
    orders = Order.objects.defer("record").in_bulk(list(results))
    patients = {order.user_id for order in orders.values() if order.user_id}
    people = Demographics.objects.defer("record").in_bulk(patients)
    checks = {}
    for key, result in results.items():
        order = orders.get(key)
        person = people.get(order.user_id) if order and order.user_id else None
        checks[key] = check_identity(result, order, person)
    return checks


def update_reviews(order_ids: Iterable[UUID]) -> None:
    """Compare the results of these orders and update the reviews that differ."""
    write_checks(checks_by_order(order_ids))


def write_checks(checks: Mapping[UUID, IdentityCheck]) -> None:
    by_agreement: dict[Agreement, list[UUID]] = {}
    for key, check in checks.items():
        by_agreement.setdefault(check.agreement, []).append(key)
    for agreement, keys in by_agreement.items():
        rows = Review.objects.filter(pk__in=keys).exclude(identity=agreement)
        order_ids = list(rows.values_list("pk", flat=True))
        rows.filter(pk__in=order_ids).update(identity=agreement)
        _update_ranks(order_ids)


def _update_ranks(order_ids: Sequence[UUID]) -> None:
    """Compute the reviews again, because the rank depends on the comparison."""
    if order_ids:
        with connection.cursor() as cursor:
            cursor.execute("SELECT orders_derive_reviews(%s::uuid[])", [array(order_ids)])


def update_patients(sender: object, patients: Iterable[UUID], **_: object) -> None:
    """Update the reviews of all results of patients whose demographics changed."""
    keys = list(patients)
    lock_patients(keys)
    reviewed = Review.objects.filter(user_id__in=keys, version__gt=0)
    update_reviews(reviewed.values_list("pk", flat=True))


def lock_patients_of(order_ids: Iterable[UUID]) -> None:
    """Call `lock_patients` for the patients of these orders."""
    orders = Order.objects.filter(pk__in=list(order_ids))
    lock_patients(key for key in orders.values_list("user_id", flat=True) if key)


_LOCK: Final = """
SELECT pg_advisory_xact_lock(hashtextextended('identity ' || patient.id, 0))
FROM (SELECT DISTINCT id FROM unnest(%s::uuid[]) AS given (id) ORDER BY id) AS patient
"""


def lock_patients(patients: Iterable[UUID]) -> None:
    """Lock patients until the transaction ends.

    Without this lock, two transactions that store a result and demographics at the same time would
    each compare with the state before the other. The lock is taken before that of the review.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [array(patients)])
