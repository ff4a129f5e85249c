"""Edge cases: choices of an older page, references that are null, and facts out of order."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.urls import reverse

from backoffice.core.service_client import service
from labs.allowlists.teams import allowed_team_ids
from labs.models import LabAccount, LabAccountTeam, LabTest
from labs.sync import store_lab_tests
from orders.booking.sites import order_lab_slug
from orders.models import Appointment, Order
from orders.placing.order_request import OrderRequest
from orders.rules import appointment_rules
from orders.sync.orders import store_orders
from patients.models import Demographics, Patient
from tests.outbox.cases_visits import VISIT_LOOKUPS
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_allowlists import account, save_teams  # noqa: F401
from tests.outbox.test_placing import form_values, send_form
from tests.outbox.visit_forms import book_visit, open_form

UNKNOWN_TEAM = UUID("7ea00000-0000-4000-8000-0000000000ab")


def test_typed_team_can_be_added_after_a_refused_save(
    harness: OutboxHarness,
    account: LabAccount,  # noqa: F811
) -> None:
    client = harness.client("lab admin")
    page = save_teams(
        client, account, allowed_team_ids(account), another=str(UNKNOWN_TEAM), reason=""
    )
    assert page.status_code == 422
    # The page is shown again with the team among its checkboxes.
    wanted_teams = allowed_team_ids(account) | {UNKNOWN_TEAM}
    assert {chip["team"] for chip in page.context["chips"] if chip["on"]} == wanted_teams
    response = save_teams(client, account, wanted_teams)
    assert response.status_code == 302, response.content.decode()
    assert harness.newest_command().payload["target"] == sorted(map(str, wanted_teams))


def remove_lab(harness: OutboxHarness, test: LabTest) -> LabTest:
    """Remove the lab from the mirrored test. The service may send it: "lab | Lab or null"."""
    harness.sandbox.prepare_answer(f"/v3/lab_tests/{test.pk}$", merge={"lab": None})
    store_lab_tests([service().labs.lab_test(test.pk)])
    test = LabTest.objects.get(pk=test.pk)
    assert test.lab is None
    return test


@pytest.fixture
def two_accounts(harness: OutboxHarness, panel: LabTest) -> list[LabAccount]:  # noqa: F811
    """Return two active accounts of our team at the lab of `panel`."""
    team = Patient.objects.values_list("team_id", flat=True)[0]
    first = LabAccount.objects.get(lab="lab-south", status="active")
    second = LabAccount.objects.get(pk=first.pk)
    second.pk, second.account_name = uuid4(), "Made-up Second Account"
    second.save(force_insert=True)
    LabAccountTeam.objects.create(account_id=second.pk, team_id=team)
    return [first, second]


def test_test_without_lab_is_ordered_at_lab_of_its_markers(
    harness: OutboxHarness,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
    two_accounts: list[LabAccount],
) -> None:
    test = remove_lab(harness, panel)
    client = harness.client("clinician")
    refused = send_form(client, person, form_values(person, test))
    assert refused.status_code == 422 and "2 accounts can be used" in refused.content.decode()
    form_data = form_values(person, test, lab_account=str(two_accounts[0].pk))
    response = send_form(client, person, form_data)
    assert response.status_code == 302, response.content.decode()


def test_order_request_without_lab_uses_lab_of_its_markers(
    harness: OutboxHarness,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    order_request = OrderRequest(
        person.user, person, {"tests": [str(remove_lab(harness, panel).pk)]}
    )
    assert [lab.slug for lab in order_request.labs] == ["lab-south"]


def test_order_without_lab_is_booked_at_lab_of_its_test(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, "walk_in_test")
    lab = order.lab_slug
    harness.sandbox.prepare_answer(f"/v3/order/{order.pk}$", merge={"lab_test": {"lab": None}})
    store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    assert not order.lab_slug and order_lab_slug(order) == lab


def store_visit(order: Order) -> None:
    subject = VISIT_LOOKUPS["appointment-phlebotomy"]
    subject.store({str(order.pk): subject.fetch(service(), str(order.pk))})


@pytest.mark.parametrize("first", ["visit", "order"])
def test_canceled_visit_can_be_booked_again_at_once(harness: OutboxHarness, first: str) -> None:
    """The end of the visit and the status of the order may arrive in either order."""
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    visit = book_visit(harness, client, order)
    appointments = service().appointments
    reason = appointments.phlebotomy_cancellation_reasons().records[0].data.id
    canceled: Any = appointments.cancel_phlebotomy(order.pk, reason)
    if first == "visit":
        VISIT_LOOKUPS["appointment-phlebotomy"].store({str(order.pk): canceled})
    else:
        store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    assert (appointment_rules.active_appointment(order.pk) is None) == (first == "visit")
    assert (order.low_level_status == "appointment_cancelled") == (first == "order")
    assert appointment_rules.why_not_book(order) == ""
    address = reverse("orders:book", args=[order.pk])
    values, times, response = open_form(client, address)
    assert "has been collected" not in response.content.decode()
    other = next(time for time in times if time.start != visit.start_at)
    assert client.post(address, {**values, "slot": other.written()}).status_code == 302
    harness.deliver()
    assert harness.newest_command().state == "done", harness.newest_command().refusal


def test_unread_visit_is_not_past_its_draw(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    book_visit(harness, client, order)
    store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    Appointment.objects.filter(order_id=order.pk).delete()
    assert "is still loading" in appointment_rules.why_not_book(order)


def test_completed_visit_cannot_be_booked_again(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    book_visit(harness, harness.client("front desk"), order)
    order.refresh_from_db()
    harness.sandbox.prepare_answer(
        f"{order.pk}/phlebotomy/appointment$",
        merge={"status": "completed", "event_status": "completed"},
    )
    store_visit(order)
    assert (
        appointment_rules.why_not_book(order)
        == "The visit took place, so no other visit can be booked."
    )
