"""The documents of an order (orders.md 1).

Each kind has its names, its permissions, its availability, and the way it is fetched.

`unavailable_reason` uses stored records only, without a call to the service, and returns a reason
only if it is certain. The service decides all other cases, and `fetching.py` explains its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import Count
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.core.time_formats import calendar_day
from backoffice.service import Service
from backoffice.service.exchange import Document
from labs.models import LabTest
from orders.documents.collection import CollectionTime, collection_times, draw_times
from orders.models import Appointment, Order, Result
from orders.models.order import CANCELED_STATUSES
from orders.models.order_queryset import LIST_COLUMNS

ORDER_COLUMNS: Final = (*LIST_COLUMNS, "order_transaction_id", "has_abn", "lab_test_id")
"""Columns of an order that `unavailable_reason` reads."""
DEFAULT_LABELS: Final = 3
"""Number of labels if nobody chose another: the service's own default."""
MAX_LABELS: Final = 30
WITH_RESULT: Final = frozenset({"partial_results", "completed", "corrected"})
"""Statuses of orders that have a result at the service, even if the mirror does not have it yet."""
NO_INSTRUCTIONS: Final = gettext_noop("The lab has no collection instructions for this test.")
BEFORE_REGISTRATION: Final = frozenset({"ordered", "awaiting_registration"})


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """One order, with the stored facts that its documents depend on."""

    order: Order
    has_result: bool
    transaction_orders: int
    """Number of orders in its transaction, itself included."""
    transaction_has_result: bool
    visit: Appointment | None
    """The booked appointment."""
    collected: CollectionTime | None
    """When the sample was or will be collected; None if unknown."""
    has_instructions: bool | None = None
    """Whether the lab gives collection instructions for the test; None if unknown."""


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """The number of labels, and the time of collection on them; None for the known time."""

    number: int = DEFAULT_LABELS
    collected_at: datetime | None = None


Fetch = Callable[[Service, DocumentFacts, LabelOptions], AbstractContextManager[Document]]


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """One kind of document.

    `slug` is its part of a URL and of file names, `subject` its name in the audit log, and
    `missing` the message if the service has no such document. Labels and messages are in English,
    to be translated where they are shown.
    """

    slug: str
    label: str
    subject: str
    about: str
    missing: str
    needs: tuple[str, ...]
    fetch: Fetch
    reason: Callable[[DocumentFacts], str]

    @property
    def is_result(self) -> bool:
        return "results.view" in self.needs

    @property
    def is_labels(self) -> bool:
        return self.slug == "labels"

    def unavailable_reason(self, facts: DocumentFacts) -> str:
        """Return why this order has no such document; empty if it can be fetched."""
        if facts.order.missing_since:
            return gettext("The service no longer has this order.")
        return self.reason(facts)


def _canceled(facts: DocumentFacts) -> str:
    is_canceled = facts.order.low_level_status in CANCELED_STATUSES
    return gettext("This order is canceled.") if is_canceled else ""


def _requisition(facts: DocumentFacts) -> str:
    order = facts.order
    low = order.low_level_status
    if reason := _canceled(facts):
        return reason
    if low == "requisition_bypassed":
        return gettext("This order was imported, so the service has no requisition for it.")
    is_kit = order.method == "testkit" and order.patient_dob is None
    if low == "awaiting_registration" or (is_kit and low not in BEFORE_REGISTRATION):
        return gettext(
            "The kit is not registered yet. The requisition is created after registration."
        )
    if low == "ordered":
        if order.activate_by and order.activate_by > timezone.localdate():
            return gettext("Not ready yet. The order will be released on %(day)s.") % {
                "day": calendar_day(order.activate_by)
            }
        return gettext(
            "Not ready yet. The service creates the requisition shortly after the order."
        )
    return ""


def _abn(facts: DocumentFacts) -> str:
    if facts.order.has_abn is False:
        return gettext("No ABN is needed for this order.")
    return _canceled(facts)


def _instructions(facts: DocumentFacts) -> str:
    return gettext(NO_INSTRUCTIONS) if facts.has_instructions is False else _canceled(facts)


def _result(facts: DocumentFacts) -> str:
    has_result = facts.has_result or facts.order.low_level_status in WITH_RESULT
    return "" if has_result else gettext("No result yet.")


def _transaction_result(facts: DocumentFacts) -> str:
    if facts.order.order_transaction_id is None:
        return gettext("This order is not part of a transaction.")
    return "" if facts.transaction_has_result else _result(facts)


def _transaction_of(order: Order) -> UUID:
    transaction_id: UUID | None = order.order_transaction_id
    if transaction_id is None:
        raise ValueError("an order without a transaction")
    return transaction_id


def _collected_at(facts: DocumentFacts, options: LabelOptions) -> datetime:
    collected_at = options.collected_at or (facts.collected.at if facts.collected else None)
    if collected_at is None:
        raise ValueError("labels without a time of collection")
    return collected_at


_WITH_SAMPLE: Final = ("orders.view", "patients.view")
"""Permissions for documents that accompany the sample."""
_WITH_RESULTS: Final = (*_WITH_SAMPLE, "results.view")

KINDS: Final = {
    kind.slug: kind
    for kind in (
        DocumentKind(
            slug="requisition",
            label=gettext_noop("Requisition"),
            subject="requisition",
            about=gettext_noop("Goes with the sample or the patient to the lab."),
            missing=gettext_noop(
                "The service has no requisition for this order. It is created shortly after the"
                " order. Imported orders never have one."
            ),
            needs=_WITH_SAMPLE,
            fetch=lambda service, facts, _: service.orders.requisition_pdf(facts.order.pk),
            reason=_requisition,
        ),
        DocumentKind(
            slug="labels",
            label=gettext_noop("Specimen labels"),
            subject="specimen labels",
            about=gettext_noop("One for each tube, with the collection time."),
            missing=gettext_noop("The service has no labels for this order."),
            needs=_WITH_SAMPLE,
            fetch=lambda service, facts, options: service.orders.labels_pdf(
                facts.order.pk,
                _collected_at(facts, options),
                options.number,
            ),
            reason=_canceled,
        ),
        DocumentKind(
            slug="abn",
            label=gettext_noop("ABN"),
            subject="ABN",
            about=gettext_noop("Advance beneficiary notice, for the patient to sign."),
            missing=gettext_noop("The service has no ABN for this order."),
            needs=_WITH_SAMPLE,
            fetch=lambda service, facts, _: service.orders.abn_pdf(facts.order.pk),
            reason=_abn,
        ),
        DocumentKind(
            slug="instructions",
            label=gettext_noop("Collection instructions"),
            subject="collection instructions",
            about=gettext_noop("How to collect and store the sample."),
            missing=NO_INSTRUCTIONS,
            needs=_WITH_SAMPLE,
            fetch=lambda service, facts, _: service.orders.collection_instruction_pdf(
                facts.order.pk
            ),
            reason=_instructions,
        ),
        DocumentKind(
            slug="result",
            label=gettext_noop("Result document"),
            subject="result document",
            about=gettext_noop("The lab’s own report for this order."),
            missing=gettext_noop(
                "This result has no document. Some labs do not issue one for partial results."
            ),
            needs=_WITH_RESULTS,
            fetch=lambda service, facts, _: service.orders.result_pdf(facts.order.pk),
            reason=_result,
        ),
        DocumentKind(
            slug="transaction-result",
            label=gettext_noop("Combined result document"),
            subject="combined result document",
            about=gettext_noop("One report for all orders of the transaction."),
            missing=gettext_noop(
                "This transaction has no combined document. Some labs do not issue one for partial "
                "results."
            ),
            needs=_WITH_RESULTS,
            fetch=lambda service, facts, _: service.orders.transaction_result_pdf(
                _transaction_of(facts.order)
            ),
            reason=_transaction_result,
        ),
    )
}


def document_kinds_for(user: User | AnonymousUser) -> list[DocumentKind]:
    """Return the kinds of document that this user may open."""
    return [kind for kind in KINDS.values() if may(user, *kind.needs)]


def load_document_facts(orders: Iterable[Order]) -> list[DocumentFacts]:
    """Return what the documents of these orders depend on, in the same order: six queries."""
    loaded = list(orders)
    keys = [order.pk for order in loaded]
    ids = {order.order_transaction_id for order in loaded} - {None}
    reported = dict(Result.objects.filter(order_id__in=keys).values_list("pk", "date_collected"))
    together = Order.objects.filter(order_transaction_id__in=ids).order_by()
    counted = together.values_list("order_transaction_id").annotate(Count("pk"), Count("result"))
    transactions = {key: (orders, results) for key, orders, results in counted}
    booked = Appointment.objects.filter(
        order_id__in=keys, superseded_at=None, start_at__isnull=False
    )
    booked = booked.exclude(status="cancelled").exclude(event_status="cancelled")
    test_ids = {order.lab_test_id for order in loaded if order.lab_test_id}
    tests = LabTest.objects.filter(pk__in=test_ids)
    instructions = dict(tests.values_list("pk", "has_collection_instructions"))
    visits = {visit.order_id: visit for visit in booked.order_by("start_at") if visit.order_id}
    collected = collection_times(draw_times(keys), reported, visits)
    return [
        DocumentFacts(
            order,
            order.pk in reported,
            transactions.get(order.order_transaction_id, (1, 0))[0],
            transactions.get(order.order_transaction_id, (1, 0))[1] > 0,
            visits.get(order.pk),
            collected.get(order.pk),
            instructions.get(order.lab_test_id) if order.lab_test_id else None,
        )
        for order in loaded
    ]
