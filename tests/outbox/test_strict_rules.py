"""Rules that hold for a moment or a null: choices that were made when the page was, a reference
that may be null, and two facts of one change that arrive in either order."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.urls import reverse

from backoffice.core.service_client import service
from labs.allowlists.teams import allowed_team_ids
from labs.models import LabAccount, LabAccountTeam, LabTest
from labs.sync import store_lab_tests
from orders.models import Appointment, Order
from orders.placing.order_request import OrderRequest
from orders.scheduling import rules
from orders.scheduling.sites import order_lab_slug
from orders.sync.orders import store_orders
from patients.models import Demographics, Patient
from tests.outbox.cases_visits import READ
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.picking import booked, opened
from tests.outbox.test_labs import account, save  # noqa: F401
from tests.outbox.test_placing import panel, person, typed, write  # noqa: F401

STRANGER = UUID("7ea00000-0000-4000-8000-0000000000ab")


def test_typed_team_can_be_added_after_a_refused_save(
    desk: Desk,
    account: LabAccount,  # noqa: F811
) -> None:
    client = desk.client("lab admin")
    page = save(client, account, allowed_team_ids(account), another=str(STRANGER), reason="")
    assert page.status_code == 422
    # The page is shown again, with the team among the checkboxes.
    wanted = allowed_team_ids(account) | {STRANGER}
    assert {chip["team"] for chip in page.context["chips"] if chip["on"]} == wanted
    answer = save(client, account, wanted)
    assert answer.status_code == 302, answer.content.decode()
    assert desk.newest().payload["target"] == sorted(map(str, wanted))


def without_lab(desk: Desk, test: LabTest) -> LabTest:
    """The lab test as the service may send it: "lab | Lab or null"."""
    desk.sandbox.prepare_answer(f"/v3/lab_tests/{test.pk}$", merge={"lab": None})
    store_lab_tests([service().labs.lab_test(test.pk)])
    test = LabTest.objects.get(pk=test.pk)
    assert test.lab is None
    return test


@pytest.fixture
def two_accounts(desk: Desk, panel: LabTest) -> list[LabAccount]:  # noqa: F811
    """Active accounts of our team at the lab of `panel`."""
    team = Patient.objects.values_list("team_id", flat=True)[0]
    first = LabAccount.objects.get(lab="lab-south", status="active")
    second = LabAccount.objects.get(pk=first.pk)
    second.pk, second.account_name = uuid4(), "Made-up Second Account"
    second.save(force_insert=True)
    LabAccountTeam.objects.create(account_id=second.pk, team_id=team)
    return [first, second]


def test_lab_test_without_lab_is_ordered_at_its_markers_lab(
    desk: Desk,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
    two_accounts: list[LabAccount],
) -> None:
    test = without_lab(desk, panel)
    client = desk.client("clinician")
    refused = write(client, person, typed(person, test))
    assert refused.status_code == 422 and "2 accounts can be used" in refused.content.decode()
    given = typed(person, test, lab_account=str(two_accounts[0].pk))
    answer = write(client, person, given)
    assert answer.status_code == 302, answer.content.decode()


def test_test_sheet_row_without_lab_has_its_own_accounts(
    desk: Desk,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    wish = OrderRequest(person.user, person, {"tests": [str(without_lab(desk, panel).pk)]})
    assert [lab.slug for lab in wish.labs] == ["lab-south"]


def test_order_whose_test_names_no_lab_is_booked_at_its_lab(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    lab = order.lab_slug
    desk.sandbox.prepare_answer(f"/v3/order/{order.pk}$", merge={"lab_test": {"lab": None}})
    store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    assert not order.lab_slug and order_lab_slug(order) == lab


def store_visit(order: Order) -> None:
    subject = READ["appointment-phlebotomy"]
    subject.store({str(order.pk): subject.fetch(service(), str(order.pk))})


@pytest.mark.parametrize("first", ["visit", "order"])
def test_cancelled_visit_can_be_booked_anew_at_once(desk: Desk, first: str) -> None:
    """Its end and the order's step arrive one after the other, in either order."""
    order = waiting(desk)
    client = desk.client("front desk")
    visit = booked(desk, client, order)
    calls = service().appointments
    reason = calls.phlebotomy_cancellation_reasons().records[0].data.id
    gone: Any = calls.cancel_phlebotomy(order.pk, reason)
    if first == "visit":
        READ["appointment-phlebotomy"].store({str(order.pk): gone})
    else:
        store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    assert (rules.active_visit(order.pk) is None) == (first == "visit")
    assert (order.low_level_status == "appointment_cancelled") == (first == "order")
    assert rules.why_not_book(order) == ""
    address = reverse("orders:book", args=[order.pk])
    values, times, shown = opened(client, address)
    assert "past its draw" not in shown.content.decode()
    other = next(time for time in times if time.start != visit.start_at)
    assert client.post(address, {**values, "slot": other.written()}).status_code == 302
    desk.deliver()
    assert desk.newest().state == "done", desk.newest().refusal


def test_visit_that_is_not_read_yet_is_not_past_its_draw(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    booked(desk, client, order)
    store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    Appointment.objects.filter(order_id=order.pk).delete()
    assert "has not been read yet" in rules.why_not_book(order)


def test_completed_visit_is_not_booked_anew(desk: Desk) -> None:
    order = waiting(desk)
    booked(desk, desk.client("front desk"), order)
    order.refresh_from_db()
    desk.sandbox.prepare_answer(
        f"{order.pk}/phlebotomy/appointment$",
        merge={"status": "completed", "event_status": "completed"},
    )
    store_visit(order)
    assert rules.why_not_book(order) == "The visit took place: no other can be booked."
