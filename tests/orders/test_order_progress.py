"""Progress and turn on the page of one order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import strip_tags

from backoffice.accounts.models import User
from orders.models import (
    Appointment,
    Handling,
    Order,
)
from orders.results.sign_off import sign
from tests.api.rows import envelope, staff, uid
from tests.orders.order_pages import create_events, create_order, get_page
from tests.reviewing.rows import receive_result

pytestmark = pytest.mark.django_db


def test_progress_marks_done_current_skipped_and_future(client: Client, clinician: User) -> None:
    row = create_order()
    create_events(row, "ordered", "requisition_created", "transit_customer",
         "problem_in_transit_customer", "with_customer")  # fmt: skip
    nodes = [(node.status, node.state) for node in get_page(client, row).context["nodes"]]
    assert nodes == [
        ("ordered", "done"),
        ("requisition_created", "done"),
        ("transit_customer", "done"),
        ("out_for_delivery", "skipped"),
        ("problem_in_transit_customer", "detour"),
        ("with_customer", "now"),
        ("transit_lab", "to-come"),
        ("delivered_to_lab", "to-come"),
        ("completed", "to-come"),
    ]


@pytest.mark.parametrize(
    ("status", "bucket", "last"),
    [
        ("lost", "needs-action", "lost"),
        ("cancelled", "closed", "cancelled"),
        ("corrected", "result-in", "corrected"),
    ],
)
def test_finished_order_has_no_future_steps(
    client: Client, clinician: User, status: str, bucket: str, last: str
) -> None:
    row = create_order(low_level_status=status, bucket=bucket, status="failed")
    create_events(row, "ordered", "requisition_created", "transit_customer", status)
    nodes = get_page(client, row).context["nodes"]
    assert (nodes[-1].status, nodes[-1].state) == (last, "now")
    assert not [node for node in nodes if node.state == "to-come"]


def test_registrable_kit_has_its_own_steps(client: Client, clinician: User) -> None:
    row = create_order(low_level_status="testkit_registered")
    create_events(row, "ordered", "awaiting_registration", "transit_customer", "with_customer",
         "testkit_registered")  # fmt: skip
    nodes = {node.status: node.state for node in get_page(client, row).context["nodes"]}
    assert nodes["registered"] == "now"
    assert nodes["requisition_created"] == "to-come"


WALK_IN_STEPS = ("ordered", "requisition_created")


LAB_STEPS = ("draw_completed", "delivered_to_lab")
"""Steps of a walk-in that the service does not announce."""


@pytest.mark.parametrize(
    ("received", "nodes"),
    [
        (
            WALK_IN_STEPS,
            ["done", "now", *(f"{one} to-come" for one in LAB_STEPS), "completed to-come"],
        ),
        (
            (*WALK_IN_STEPS, "partial_results"),
            ["done", "done", *(f"{one} done" for one in LAB_STEPS), "partial_results now",
             "completed to-come"],
        ),
        (
            (*WALK_IN_STEPS, "completed"),
            ["done", "done", *(f"{one} done" for one in LAB_STEPS), "completed now"],
        ),
        (
            (*WALK_IN_STEPS, "redraw_available"),
            ["done", "done", *(f"{one} done" for one in LAB_STEPS), "redraw_available now"],
        ),
        (
            (*WALK_IN_STEPS, "appointment_pending"),
            ["done", "done", "appointment_pending now", "appointment_scheduled to-come",
             *(f"{one} to-come" for one in LAB_STEPS), "completed to-come"],
        ),
        (
            (*WALK_IN_STEPS, "appointment_scheduled", "appointment_cancelled", "completed"),
            ["done", "done", "appointment_scheduled done", "appointment_cancelled detour",
             *(f"{one} done" for one in LAB_STEPS), "completed now"],
        ),
        (
            (*WALK_IN_STEPS, "appointment_pending", "appointment_cancelled"),
            ["done", "done", "appointment_pending detour", "appointment_cancelled now",
             *(f"{one} to-come" for one in LAB_STEPS), "completed to-come"],
        ),
    ],
)  # fmt: skip
def test_walk_in_has_visit_steps_only_when_booked(
    client: Client, clinician: User, received: tuple[str, ...], nodes: list[str]
) -> None:
    buckets = {"completed": "result-in", "redraw_available": "needs-action"}
    row = create_order(method="walk_in_test", low_level_status=received[-1],
               bucket=buckets.get(received[-1], "with-patient"))  # fmt: skip
    create_events(row, *received)
    shown = [f"{node.status} {node.state}" for node in get_page(client, row).context["nodes"]]
    expected_start = [
        f"{status} {state}" for status, state in zip(WALK_IN_STEPS, nodes, strict=False)
    ]
    assert shown == expected_start + nodes[2:]


def test_reserved_walk_in_has_future_visit_step(client: Client, clinician: User) -> None:
    row = create_order(method="walk_in_test", low_level_status="ordered", bucket="preparing")
    create_events(row, "ordered")

    def steps() -> list[str]:
        return [node.status for node in get_page(client, row).context["nodes"]]

    assert "appointment_scheduled" not in steps()
    Appointment(
        id=uid("appointment", 1), user_id=row.user_id, order_id=row.pk, provider="p",
        type="patient_service_center", status="reserved", event_status="reserved", **envelope(),
    ).save()  # fmt: skip
    assert "appointment_scheduled" in steps()


def create_handling(row: Order, outcome: str = "handled", **values: Any) -> Handling:
    by = staff("lab coordinator", "cora")
    fields = {"reason": "Ordered again", "until": None, "event_id": row.last_event_id, **values}
    handling = Handling(order_id=row.pk, outcome=outcome, by=by, at=timezone.now(), **fields)
    handling.save(force_insert=True)
    return handling


def turn_text(client: Client, row: Order) -> str:
    page = get_page(client, row).content.decode()
    section = page[page.index('<section class="turn"') :]
    return " ".join(strip_tags(section[: section.index("</section>")]).split())


def turn_in_list_text(client: Client) -> str:
    """Return the turn of the only order in the list."""
    page = client.get("/orders/").content.decode()
    cell = page[page.index('<td data-label="Waiting on">') :]
    return " ".join(strip_tags(cell[: cell.index("</td>")]).split())


def test_handled_exception_shows_person_time_and_outcome(client: Client, clinician: User) -> None:
    row = create_order(low_level_status="lost", bucket="needs-action")
    before = turn_text(client, row)
    assert "Waiting on the clinic." in before and "Needs action" in before
    assert turn_in_list_text(client).startswith("Clinic")
    handling = create_handling(row)
    assert turn_in_list_text(client) == "Handled"
    words = turn_text(client, row)
    assert "Handled by cora, " in words
    assert "just now: “Ordered again”. Returns only if there is an update." in words
    assert "Waiting on the clinic" not in words and "Needs action" not in words
    Handling.objects.update(reason="")
    assert "just now. Returns only if there is an update." in turn_text(client, row)
    Handling.objects.update(
        outcome="voicemail", until=timezone.now() + timedelta(days=1), reason=""
    )
    words = turn_text(client, row)
    assert "Handled by cora, " in words and "just now: voicemail. Due again " in words
    Handling.objects.update(outcome="snoozed", reason="On a trip")
    words = turn_text(client, row)
    assert "Snoozed by cora, " in words and "just now: “On a trip”. Due again " in words
    assert turn_in_list_text(client) == "Snoozed"
    Handling.objects.update(until=timezone.now() - timedelta(minutes=1))
    assert turn_in_list_text(client).startswith("Clinic"), "it is due again"
    Handling.objects.update(until=timezone.now() + timedelta(days=1))
    Handling.objects.update(event_id=handling.event_id - 1)
    words = turn_text(client, row)
    assert "Waiting on the clinic." in words and "Needs action" in words, "a new event arrived"
    assert "Last action: snoozed, cora" in words
    assert turn_in_list_text(client).startswith("Clinic")


def test_clinic_has_the_turn_until_result_is_signed(client: Client, clinician: User) -> None:
    row = create_order(low_level_status="completed", bucket="result-in")
    receive_result(row.pk, ("Sodium", "4.1", "normal"))
    assert "Waiting on the clinic." in turn_text(client, row) and turn_in_list_text(
        client
    ).startswith("Clinic")
    sign(row.pk, 1, clinician)
    assert turn_in_list_text(client) == "Signed"
    words = turn_text(client, row)
    assert "Signed. Nothing left to do." in words and "Waiting on the clinic" not in words
    assert "Signed by " in get_page(client, row).content.decode()
    receive_result(row.pk, ("Sodium", "5.6", "abnormal"))
    assert "Waiting on the clinic." in turn_text(client, row), (
        "a corrected result waits for review again"
    )
    assert turn_in_list_text(client).startswith("Clinic")


def test_viewer_sees_only_that_exception_was_handled(client: Client) -> None:
    client.force_login(staff("viewer"))
    row = create_order(low_level_status="lost", bucket="needs-action")
    create_handling(row)
    words = turn_text(client, row)
    assert "Handled" in words and "Needs action" not in words
    assert "cora" not in words and "Ordered again" not in words


def test_handling_adds_no_query(client: Client, clinician: User) -> None:
    row = create_order(low_level_status="lost", bucket="needs-action")

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            get_page(client, row)
        return len(seen)

    count_queries()
    few = count_queries()
    create_handling(row)
    assert count_queries() == few
