"""Placing an order (orders.md 2): under an idempotency key, with our command's id on the order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from backoffice.models import CommandRecord
from backoffice.outbox import (
    Ambiguous,
    Command,
    Confirmed,
    NoTrace,
    PossibleMatch,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.service import Record, Service, Unreadable, errors
from backoffice.service import orders as service_orders
from labs.models import LabAccount, LabTest
from orders.models import Order
from orders.sync.orders import store_orders
from patients.models import Patient

CLOCKS: Final = timedelta(days=1)
"""How far the service's clock may be behind ours, with room to spare."""
ECHOED_WITHIN: Final = timedelta(days=30)
PAGE: Final = 100
MOST_PAGES: Final = 20
USABLE: Final = ("active",)
"""States of a lab account that orders can be placed under."""
NOT_CANCELED: Final = "The order that this one replaces is not canceled. Cancel it first."
ORDER_FIELDS: Final = {
    **{
        f"patient_details.{name}": name
        for name in ("first_name", "last_name", "dob", "gender", "phone_number", "email")
    },
    "patient_details.medical_proxy": "dob",
    "patient_address": "first_line",
    **{
        f"patient_address.{name}": name
        for name in ("first_line", "second_line", "city", "state", "zip")
    },
    "order_set": "tests",
    "order_set.add_on": "markers",
    "collection_method": "collection_method",
    "lab_account_id": "lab_account",
    "physician": "physician",
    "physician.first_name": "physician_first_name",
    "physician.last_name": "physician_last_name",
    "physician.npi": "physician_npi",
    "billing_type": "billing_type",
}
"""Where the form has what placed and imported orders have in common."""

Answer = Record[service_orders.Order]


class OrderOf(Command, kw_only=True):
    """An order of a patient that is still to be made."""

    task: ClassVar[str] = "orders.tasks.deliver"
    accounts: ClassVar[Sequence[str]] = USABLE

    words: str
    """What is ordered, for people: names of tests."""

    def sent(self) -> service_orders.NewOrder | service_orders.ImportedOrder:
        """The body."""
        raise NotImplementedError

    def subject(self) -> tuple[str, str]:
        return "patient", str(self.sent().user_id)

    def patient(self) -> UUID | None:
        return self.sent().user_id

    def done(self, remote_id: str) -> str:
        return reverse("orders:detail", args=[remote_id]) + "?placed=1"

    def check(self) -> None:
        body = self.sent()
        patient = Patient.objects.filter(pk=body.user_id).only("missing_since").first()
        if patient is None or patient.missing_since:
            raise PreconditionFailed("The service no longer has this patient.")
        wanted = set(body.order_set.lab_test_ids or ())
        tests = LabTest.objects.filter(pk__in=wanted).in_bulk()
        for key in wanted:
            if key not in tests or tests[key].status != "active":
                name = tests[key].name if key in tests else "A chosen test"
                raise PreconditionFailed(f"{name} cannot be ordered any more.", field="tests")
        if body.lab_account_id is not None:
            account = LabAccount.objects.filter(pk=body.lab_account_id).first()
            if account is None or account.status not in self.accounts:
                name = f"The lab account {account}" if account else "The lab account"
                raise PreconditionFailed(f"{name} cannot be used any more.", field="lab_account")

    def store(self, answer: Answer) -> str:
        store_orders([answer])
        return str(answer.data.id)

    def orders_of_patient(self, service: Service) -> tuple[list[Answer], list[Unreadable]]:
        """All orders of the patient, and those that cannot be read."""
        records: list[Answer] = []
        unreadable: list[Unreadable] = []
        for number in range(1, MOST_PAGES + 1):
            page = service.orders.list(user_id=self.sent().user_id, page=number, size=PAGE)
            records += page.records
            unreadable += page.unreadable
            empty = not page.records and not page.unreadable
            if empty or (page.total is not None and number * PAGE >= page.total):
                return records, unreadable
        raise errors.Malformed()  # A list that does not end says nothing of what is not in it.

    def not_known_before(self, orders: list[Answer], sending: SendContext) -> list[Answer]:
        """Those that are no other command's, and were not known before this was asked."""
        ids = [order.data.id for order in orders]
        known = Order.objects.filter(pk__in=ids, as_of__lt=sending.requested_at)
        others = CommandRecord.objects.filter(remote_id__in=map(str, ids)).exclude(pk=sending.id)
        taken = {str(pk) for pk in known.values_list("pk", flat=True)}
        taken.update(others.values_list("remote_id", flat=True))
        return [order for order in orders if str(order.data.id) not in taken]

    def is_like(self, answer: Answer) -> bool:
        """Whether an order is for the tests that this one is for."""
        wanted = self.sent().order_set
        tests = wanted.lab_test_ids or []
        if len(tests) == 1 and wanted.add_on is None:
            return answer.data.lab_test.id == tests[0]
        # Tests together, or with markers beside them, become a test the service makes up.
        asked = set((wanted.add_on.marker_ids if wanted.add_on else None) or ())
        for test in LabTest.objects.filter(pk__in=tests):
            asked.update(marker["id"] for marker in test.said().get("markers") or ())
        return asked <= {marker.id for marker in answer.data.lab_test.markers}


class CreateOrder(OrderOf, kw_only=True):
    """Place an order. The command's id goes along as `passthrough` and comes back on the order."""

    kind: ClassVar[str] = "order.create"
    again: ClassVar[ResendPolicy] = ResendPolicy.SAME_KEY
    fields: ClassVar[dict[str, str]] = {
        **ORDER_FIELDS,
        "icd_codes": "icd_codes",
        "clinical_notes": "clinical_notes",
        "activate_by": "activate_by",
    }

    body: service_orders.NewOrder
    replaces: UUID | None = None
    """The canceled order at the wrong lab that this one is placed instead of."""

    def sent(self) -> service_orders.NewOrder:
        return self.body

    def title(self) -> str:
        return f"Place the order: {self.words}"

    def form(self) -> str:
        return reverse("orders:new", args=[self.body.user_id])

    def lock(self) -> str:
        """The same tests for the same patient under the same account, by whomever."""
        added = self.body.order_set.add_on
        what = [
            str(self.body.user_id),
            str(self.body.lab_account_id),
            *sorted(map(str, self.body.order_set.lab_test_ids or ())),
            *sorted(map(str, (added.marker_ids if added else None) or ())),
        ]
        return f"order.create:{hashlib.sha256(' '.join(what).encode()).hexdigest()}"

    def check(self) -> None:
        super().check()
        day = self.body.activate_by
        # Today, somewhere: it may be yesterday by UTC, or become that while this waits.
        if day is not None and day < datetime.now(UTC).date() - timedelta(days=1):
            raise PreconditionFailed(
                "The date on which it goes out lies in the past.", field="activate_by"
            )
        if self.replaces is not None:
            former = Order.objects.filter(pk=self.replaces, user_id=self.body.user_id).first()
            if former is None or not former.was_canceled():
                raise PreconditionFailed(NOT_CANCELED)

    def send(self, service: Service, sending: SendContext) -> Answer:
        self.body.passthrough = str(sending.id)
        field = settings.SERVICE_ORDER_REASON_FIELD
        extra = {field: service_orders.INCORRECT_LAB} if field and self.replaces else None
        key = str(sending.idempotency_key)
        try:
            return service.orders.create(self.body, idempotency_key=key, extra=extra)
        except errors.Refused as error:
            if error.status == 409:
                # An earlier sending with this key is still being carried out: it may succeed.
                raise errors.Uncertain(status=409, route=error.route) from error
            raise

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        """By the id we sent along: "passthrough: opaque team value, echoed on the order" (orders.md
        2.2), among all orders of the patient ("user_id | uuid or null"). A service that gives none
        back leaves it to a person to tell ours from one that is like it; one that does has none of
        ours without it, and what its idempotency key was used for, it knows itself."""
        orders, unreadable = self.orders_of_patient(service)
        ours = [order for order in orders if order.data.passthrough == str(sending.id)]
        if len(ours) == 1:
            return Confirmed(ours[0])
        if not ours and unreadable:
            raise errors.Malformed(unreadable=unreadable[0])  # It may be the one looked for.
        if not ours and not _ids_come_back(orders):
            since = (sending.first_sent_at or sending.requested_at) - CLOCKS
            lately = [order for order in orders if order.data.created_at >= since]
            ours = self._new_like_ones(lately, sending)
        if not ours:
            return NoTrace()
        return Ambiguous([PossibleMatch(str(order.data.id), order_words(order)) for order in ours])

    def _new_like_ones(self, lately: list[Answer], sending: SendContext) -> list[Answer]:
        """Those that may be ours, as no id comes back."""
        new = self.not_known_before(lately, sending)
        return [order for order in new if not order.data.passthrough and self.is_like(order)]


def _ids_come_back(lately: list[Answer]) -> bool:
    """Whether the service shows the `passthrough` of orders, as far as we have seen."""
    if any(order.data.passthrough for order in lately):
        return True
    seen = Order.objects.filter(created_at__gt=timezone.now() - ECHOED_WITHIN)
    return seen.exclude(passthrough=None).exclude(passthrough="").exists()


def order_words(answer: Answer) -> str:
    order = answer.data
    return f"{order.lab_test.name or 'Order'}, placed {order.created_at:%-d %b %Y, %H:%M} UTC"
