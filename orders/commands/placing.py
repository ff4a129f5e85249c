"""Placing an order (orders.md 2). It has an idempotency key and the id of the command."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.core.time_formats import calendar_day, hour
from backoffice.outbox.command import (
    Ambiguous,
    Command,
    Confirmed,
    NoTrace,
    PossibleMatch,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.outbox.models import CommandRecord
from backoffice.service import Record, Service, Unreadable, errors
from backoffice.service import orders as service_orders
from labs.models import LabAccount, LabTest
from orders.models import Order
from orders.sync.orders import store_orders
from patients.models import Patient

CLOCK_TOLERANCE: Final = timedelta(days=1)
"""Most by which the service's clock may be behind our clock, with a margin."""
PASSTHROUGH_WINDOW: Final = timedelta(days=30)
"""Age up to which orders are searched for the `passthrough` that was sent."""
PAGE: Final = 100
MAX_PAGES: Final = 20
USABLE_STATUSES: Final = ("active",)
"""Statuses of a lab account under which orders can be placed."""
NOT_CANCELED: Final = gettext_noop(
    "The order that this one replaces is not canceled. Cancel it first."
)
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
"""Form fields for the request fields that placed and imported orders have in common."""

Answer = Record[service_orders.OrderPayload]


class NewOrderCommand(Command, kw_only=True):
    """Base of commands that make a new order of a patient."""

    task: ClassVar[str] = "orders.tasks.deliver"
    account_statuses: ClassVar[Sequence[str]] = USABLE_STATUSES

    words: str
    """The names of the ordered tests, for staff."""

    def order_body(self) -> service_orders.NewOrder | service_orders.ImportedOrder:
        """Return the request body."""
        raise NotImplementedError

    def subject(self) -> tuple[str, str]:
        return "patient", str(self.order_body().user_id)

    def patient(self) -> UUID | None:
        return self.order_body().user_id

    def done_url(self, remote_id: str) -> str:
        return reverse("orders:detail", args=[remote_id]) + "?placed=1"

    def check(self) -> None:
        body = self.order_body()
        patient = Patient.objects.filter(pk=body.user_id).only("missing_since").first()
        if patient is None or patient.missing_since:
            raise PreconditionFailed(gettext("The lab service no longer has this patient."))
        test_ids = set(body.order_set.lab_test_ids or ())
        tests = LabTest.objects.in_bulk(test_ids)
        for key in test_ids:
            if key not in tests or tests[key].status != "active":
                raise PreconditionFailed(
                    gettext("%(test)s can no longer be ordered.") % {"test": tests[key].name}
                    if key in tests
                    else gettext("One of the tests can no longer be ordered."),
                    field="tests",
                )
        if body.lab_account_id is not None:
            account = LabAccount.objects.filter(pk=body.lab_account_id).first()
            if account is None or account.status not in self.account_statuses:
                raise PreconditionFailed(
                    gettext("The lab account %(account)s can no longer be used.")
                    % {"account": account}
                    if account
                    else gettext("The lab account can no longer be used."),
                    field="lab_account",
                )

    def store(self, answer: Answer) -> str:
        store_orders([answer])
        return str(answer.data.id)

    def orders_of_patient(self, service: Service) -> tuple[list[Answer], list[Unreadable]]:
        """Return all orders of the patient, and the records that cannot be read."""
        records: list[Answer] = []
        unreadable: list[Unreadable] = []
        for number in range(1, MAX_PAGES + 1):
            page = service.orders.list(user_id=self.order_body().user_id, page=number, size=PAGE)
            records += page.records
            unreadable += page.unreadable
            empty = not page.records and not page.unreadable
            if empty or (page.total is not None and number * PAGE >= page.total):
                return records, unreadable
        raise errors.Malformed()  # An endless list does not prove that an order is missing.

    def new_orders(self, orders: list[Answer], sending: SendContext) -> list[Answer]:
        """Return the orders that no other command made and that are new since this request."""
        ids = [order.data.id for order in orders]
        earlier = Order.objects.filter(pk__in=ids, as_of__lt=sending.requested_at)
        other_commands = CommandRecord.objects.filter(remote_id__in=map(str, ids)).exclude(
            pk=sending.id
        )
        claimed_ids = {str(pk) for pk in earlier.values_list("pk", flat=True)}
        claimed_ids.update(other_commands.values_list("remote_id", flat=True))
        return [order for order in orders if str(order.data.id) not in claimed_ids]

    def has_same_tests(self, answer: Answer) -> bool:
        """Whether an order is for the same tests as this command."""
        order_set = self.order_body().order_set
        tests = order_set.lab_test_ids or []
        if len(tests) == 1 and order_set.add_on is None:
            return answer.data.lab_test.id == tests[0]
        # For several tests, or tests with markers, the service generates a test.
        marker_ids = set((order_set.add_on.marker_ids if order_set.add_on else None) or ())
        for test in LabTest.objects.filter(pk__in=tests):
            marker_ids.update(marker["id"] for marker in test.record_at().get("markers") or ())
        return marker_ids <= {marker.id for marker in answer.data.lab_test.markers}


class CreateOrder(NewOrderCommand, kw_only=True):
    """Place an order. The command's id is sent as `passthrough` and is then part of the order."""

    kind: ClassVar[str] = "order.create"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_KEY
    fields: ClassVar[dict[str, str]] = {
        **ORDER_FIELDS,
        "icd_codes": "icd_codes",
        "clinical_notes": "clinical_notes",
        "activate_by": "activate_by",
    }

    body: service_orders.NewOrder
    replaces: UUID | None = None
    """The canceled order at the wrong lab that this one replaces."""

    def order_body(self) -> service_orders.NewOrder:
        return self.body

    def title(self) -> str:
        return f"Place order: {self.words}"

    def form_url(self) -> str:
        return reverse("orders:new", args=[self.body.user_id])

    def lock_key(self) -> str:
        """Return the lock, on the same tests for the same patient under the same account.

        It does not depend on the user who places the order.
        """
        added = self.body.order_set.add_on
        parts = [
            str(self.body.user_id),
            str(self.body.lab_account_id),
            *sorted(map(str, self.body.order_set.lab_test_ids or ())),
            *sorted(map(str, (added.marker_ids if added else None) or ())),
        ]
        return f"order.create:{hashlib.sha256(' '.join(parts).encode()).hexdigest()}"

    def check(self) -> None:
        super().check()
        day = self.body.activate_by
        # The day is today in some zone. In UTC it may be yesterday, or become yesterday while the
        # command waits.
        if day is not None and day < datetime.now(UTC).date() - timedelta(days=1):
            raise PreconditionFailed(
                gettext("The release date is in the past."), field="activate_by"
            )
        if self.replaces is not None:
            former = Order.objects.filter(pk=self.replaces, user_id=self.body.user_id).first()
            if former is None or not former.was_canceled():
                raise PreconditionFailed(gettext(NOT_CANCELED))

    def send(self, service: Service, sending: SendContext) -> Answer:
        self.body.passthrough = str(sending.id)
        field = settings.SERVICE_ORDER_REASON_FIELD
        extra = {field: service_orders.INCORRECT_LAB} if field and self.replaces else None
        key = str(sending.idempotency_key)
        try:
            return service.orders.create(self.body, idempotency_key=key, extra=extra)
        except errors.Refused as error:
            if error.status == 409:
                # An earlier attempt with this key is still in progress and may succeed.
                raise errors.Uncertain(status=409, route=error.route) from error
            raise

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        """Look for the id that was sent among all orders of the patient ("user_id | uuid or null").

        "passthrough: opaque team value, echoed on the order" (orders.md 2.2). If the service echoes
        no `passthrough`, a person decides which of the similar orders this command made. If it
        does, an order without the id was not made by this command, and the service itself knows
        what its idempotency key was used for.
        """
        orders, unreadable = self.orders_of_patient(service)
        matches = [order for order in orders if order.data.passthrough == str(sending.id)]
        if len(matches) == 1:
            return Confirmed(matches[0])
        if not matches and unreadable:
            raise errors.Malformed(unreadable=unreadable[0])  # It may be the order of this command.
        if not matches and not _echoes_passthrough(orders):
            since = (sending.first_sent_at or sending.requested_at) - CLOCK_TOLERANCE
            lately = [order for order in orders if order.data.created_at >= since]
            matches = self._new_similar_orders(lately, sending)
        if not matches:
            return NoTrace()
        return Ambiguous(
            [PossibleMatch(str(order.data.id), order_description(order)) for order in matches]
        )

    def _new_similar_orders(self, lately: list[Answer], sending: SendContext) -> list[Answer]:
        """Return the orders that this command may have made, for a service that echoes no id."""
        new = self.new_orders(lately, sending)
        return [order for order in new if not order.data.passthrough and self.has_same_tests(order)]


def _echoes_passthrough(lately: list[Answer]) -> bool:
    """Whether the service shows the `passthrough` of orders, judging by recent orders."""
    if any(order.data.passthrough for order in lately):
        return True
    recent = Order.objects.filter(created_at__gt=timezone.now() - PASSTHROUGH_WINDOW)
    return recent.exclude(passthrough=None).exclude(passthrough="").exists()


def order_description(answer: Answer) -> str:
    order = answer.data
    placed = f"{calendar_day(order.created_at)}, {hour(order.created_at)} UTC"
    return f"{order.lab_test.name or 'Order'}, placed {placed}"
