"""The page of one order."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape, strip_tags

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.team.actions import add_note, assign
from orders.models import (
    Appointment,
    Handling,
    Order,
    OrderEvent,
    Result,
    ResultMarker,
    Transaction,
)
from orders.results.sign_off import sign
from tests.api.rows import envelope, order, staff, uid
from tests.reviewing.rows import receive_result

pytestmark = pytest.mark.django_db

TIMES = re.compile(
    r'(?:datetime|data-since)="[^"]*"|name="(?:csrfmiddlewaretoken|form_id)" value="[^"]*"'
)
"""Where any few digits or letters may stand by chance."""
RECORD = {
    "details": {
        "type": "testkit",
        "data": {
            "shipment": {
                "outbound_courier": "courier-east",
                "outbound_tracking_number": "TRK-1",
                "outbound_tracking_url": "https://example.com/track/1",
                "inbound_tracking_url": "javascript:alert(1)",
                "notes": "Canary parcel",
            }
        },
    },
    "patient_address": {"receiver_name": "Rec Sample", "first_line": "1 Sample Street"},
    "patient_details": {"phone_number": "+15550100123"},
    "physician": {"first_name": "Pat", "last_name": "Madeup", "npi": "1234567890"},
    "clinical_notes": "Canary note <b>",
    "icd_codes": ["E11.9"],
}


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    return user


def make(n: int = 1, **values: Any) -> Order:
    Transaction(id=uid("transaction", 1), status="active", **envelope()).save()
    row = order(
        n,
        **{
            "order_transaction_id": uid("transaction", 1),
            "method": "testkit",
            "low_level_status": "with_customer",
            "bucket": "with-patient",
            "last_event_at": timezone.now() - timedelta(days=9, minutes=1),
            "patient_first_name": "Maria",
            "patient_last_name": "Testperson",
            "patient_name": "maria testperson",
            "lab_test_name": "Made-up panel",
            **envelope(json.dumps(RECORD)),
            **values,
        },
    )
    row.save()
    return row


def tell(row: Order, *statuses: str) -> None:
    start = timezone.now() - timedelta(days=20)
    for step, status in enumerate(statuses):
        OrderEvent(
            order_id=row.pk,
            event_id=step,
            created_at=start + timedelta(hours=step),
            status=f"collecting_sample.{row.method}.{status}",
            low_level_status=status,
        ).save()


def get(client: Client, row: Order, **query: str) -> Any:
    answer = client.get(f"/orders/{row.pk}/", query)
    assert answer.status_code == 200
    return answer


def test_it_works(client: Client, clinician: User) -> None:
    row = make()
    tell(row, "ordered", "requisition_created", "transit_customer", "with_customer")
    page = get(client, row).content.decode()
    for words in ("Made-up panel", "Maria Testperson", "Kit with patient", "The patient’s turn.",
                  "Kit with patient for 9 d. Usual up to 7 d (default). 2 d over.",
                  "No history yet: 0 of the 30 orders", "Gone quiet", "courier-east",
                  "TRK-1", "Pat Madeup", "E11.9", "Canary note &lt;b&gt;", "1 Sample Street",
                  "(555) 010-0123", "As the service had it"):  # fmt: skip
        assert words in page, words


def test_the_journey_marks_done_current_skipped_and_to_come(
    client: Client, clinician: User
) -> None:
    row = make()
    tell(row, "ordered", "requisition_created", "transit_customer",
         "problem_in_transit_customer", "with_customer")  # fmt: skip
    nodes = [(node.status, node.state) for node in get(client, row).context["nodes"]]
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
def test_a_journey_that_ended_promises_nothing(
    client: Client, clinician: User, status: str, bucket: str, last: str
) -> None:
    row = make(low_level_status=status, bucket=bucket, status="failed")
    tell(row, "ordered", "requisition_created", "transit_customer", status)
    nodes = get(client, row).context["nodes"]
    assert (nodes[-1].status, nodes[-1].state) == (last, "now")
    assert not [node for node in nodes if node.state == "to-come"]


def test_a_registrable_kit_has_its_own_way(client: Client, clinician: User) -> None:
    row = make(low_level_status="testkit_registered")
    tell(row, "ordered", "awaiting_registration", "transit_customer", "with_customer",
         "testkit_registered")  # fmt: skip
    nodes = {node.status: node.state for node in get(client, row).context["nodes"]}
    assert nodes["registered"] == "now"
    assert nodes["requisition_created"] == "to-come"


WALK = ("ordered", "requisition_created")
LAB = ("draw_completed", "delivered_to_lab")
"""Steps of a walk-in that the service does not announce."""


@pytest.mark.parametrize(
    ("told", "nodes"),
    [
        (WALK, ["done", "now", *(f"{one} to-come" for one in LAB), "completed to-come"]),
        (
            (*WALK, "partial_results"),
            ["done", "done", *(f"{one} done" for one in LAB), "partial_results now",
             "completed to-come"],
        ),
        ((*WALK, "completed"), ["done", "done", *(f"{one} done" for one in LAB), "completed now"]),
        (
            (*WALK, "redraw_available"),
            ["done", "done", *(f"{one} done" for one in LAB), "redraw_available now"],
        ),
        (
            (*WALK, "appointment_pending"),
            ["done", "done", "appointment_pending now", "appointment_scheduled to-come",
             *(f"{one} to-come" for one in LAB), "completed to-come"],
        ),
        (
            (*WALK, "appointment_scheduled", "appointment_cancelled", "completed"),
            ["done", "done", "appointment_scheduled done", "appointment_cancelled detour",
             *(f"{one} done" for one in LAB), "completed now"],
        ),
        (
            (*WALK, "appointment_pending", "appointment_cancelled"),
            ["done", "done", "appointment_pending detour", "appointment_cancelled now",
             *(f"{one} to-come" for one in LAB), "completed to-come"],
        ),
    ],
)  # fmt: skip
def test_a_walk_in_goes_to_the_lab_and_has_a_visit_only_where_one_is_booked(
    client: Client, clinician: User, told: tuple[str, ...], nodes: list[str]
) -> None:
    buckets = {"completed": "result-in", "redraw_available": "needs-action"}
    row = make(method="walk_in_test", low_level_status=told[-1],
               bucket=buckets.get(told[-1], "with-patient"))  # fmt: skip
    tell(row, *told)
    shown = [f"{node.status} {node.state}" for node in get(client, row).context["nodes"]]
    begun = [f"{status} {state}" for status, state in zip(WALK, nodes, strict=False)]
    assert shown == begun + nodes[2:]


def test_a_walk_in_whose_time_is_held_before_its_paperwork_has_a_visit_to_come(
    client: Client, clinician: User
) -> None:
    row = make(method="walk_in_test", low_level_status="ordered", bucket="preparing")
    tell(row, "ordered")

    def steps() -> list[str]:
        return [node.status for node in get(client, row).context["nodes"]]

    assert "appointment_scheduled" not in steps()
    Appointment(
        id=uid("appointment", 1), user_id=row.user_id, order_id=row.pk, provider="p",
        type="patient_service_center", status="reserved", event_status="reserved", **envelope(),
    ).save()  # fmt: skip
    assert "appointment_scheduled" in steps()


def test_values_nobody_has_heard_of_are_shown_as_they_came(client: Client, clinician: User) -> None:
    row = make(low_level_status="teleported", bucket="unknown", method="by_drone",
               status_detail="wormhole", billing_type="barter", origin="dream")  # fmt: skip
    tell(row, "ordered", "teleported")
    page = get(client, row).content.decode()
    for words in ("teleported", "by_drone", "wormhole", "barter", "dream"):
        assert words in page, words


def test_a_record_of_another_shape_breaks_nothing(client: Client, clinician: User) -> None:
    for text in ("{}", "[]", "null", "not json", '{"details": 7, "patient_address": "x"}'):
        row = make(**envelope(text))
        tell(row, "ordered")
        get(client, row)


def test_only_web_addresses_become_links(client: Client, clinician: User) -> None:
    page = get(client, make()).content.decode()
    assert 'href="https://example.com/track/1"' in page
    assert "javascript:" not in page


def test_visits_show_both_clocks_and_say_when_states_disagree(
    client: Client, clinician: User
) -> None:
    User.objects.filter(pk=clinician.pk).update(time_zone="America/New_York")
    row = make(method="at_home_phlebotomy", low_level_status="appointment_scheduled")
    start = timezone.now().replace(month=1, day=5, hour=6, minute=30) + timedelta(days=365)
    visit = {"user_id": row.user_id, "order_id": row.pk, "type": "phlebotomy", "provider": "p"}
    place = {"city": "Phoenix", "first_line": "5 Sample Road", "external_id": "A-22"}
    Appointment(
        id=uid("appointment", 1), status="pending", event_status="scheduled", start_at=start,
        iana_timezone="America/Phoenix", **visit, **place, **envelope(),
    ).save()  # fmt: skip
    Appointment(
        id=uid("appointment", 2), status="cancelled", event_status="cancelled",
        superseded_at=timezone.now(), **visit, **envelope(),
    ).save()  # fmt: skip
    answer = get(client, row)
    page = answer.content.decode()
    assert [one.pk for one in answer.context["visits"]] == [
        uid("appointment", 1),
        uid("appointment", 2),
    ]
    assert "23:30 MST" in page
    assert "01:30 EST" in page
    assert "The service also reports: Booked" in page
    assert "A-22" in page
    assert "No time was agreed." in page, "nobody waits for one of a visit that is over"


@pytest.fixture
def result() -> Order:
    row = make(low_level_status="completed", bucket="result-in", interpretation="critical")
    Result(order_id=row.pk, interpretation="critical", returned=3, missing=1, **envelope()).save()
    numeric = {"result_id": row.pk, "type": "numeric"}
    ResultMarker(position=0, name="Glucose", text="80", value=80, interpretation="normal",
                 min_range_value=70, max_range_value=99, **numeric).save()  # fmt: skip
    ResultMarker(position=1, name="LDL", text="161", value=161, interpretation="abnormal",
                 max_range_value=100, is_above_max_range=True, **numeric).save()  # fmt: skip
    ResultMarker(position=2, name="Potassium", text="6.913", value=6.913, unit="mmol/L",
                 interpretation="critical", **numeric).save()  # fmt: skip
    ResultMarker(position=3, name="Insulin", is_missing=True, result_id=row.pk,
                 failure_type="quantity_not_sufficient_failure").save()  # fmt: skip
    return row


def test_results_come_worst_first_and_say_what_is_missing(
    client: Client, clinician: User, result: Order
) -> None:
    answer = get(client, result)
    assert [one.name for one in answer.context["markers"]] == ["Potassium", "LDL", "Glucose"]
    page = answer.content.decode()
    for words in ("6.913", "mmol/L", "High", "3 of 4 back", "Insulin", "Not enough sample"):
        assert words in page, words


@pytest.mark.parametrize("text", ["<5", "1e-3", "3-7", "100.20", "0.10", ">1,000", "Not Detected"])
def test_a_value_is_shown_as_the_lab_wrote_it(
    client: Client, clinician: User, result: Order, text: str
) -> None:
    ResultMarker.objects.filter(name="Glucose").update(text=text, value=None)
    assert f">{escape(text)} <span" in get(client, result).content.decode()


def test_the_front_desk_learns_that_a_result_is_in_but_no_value(
    client: Client, result: Order
) -> None:
    client.force_login(staff("front desk"))
    page = get(client, result).content.decode()
    assert "The result is in." in page
    assert "6.913" not in TIMES.sub("", page)
    assert "Potassium" not in page


def test_siblings_stand_on_the_page_and_in_the_log(client: Client, clinician: User) -> None:
    first = make(1, low_level_status="redraw_available", bucket="needs-action")
    second = make(2, origin="redraw", user_id=uid("patient", 1))
    answer = get(client, first)
    assert f'href="/orders/{second.pk}/"' in answer.content.decode()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_type) == ("view", "order")
    assert set(entry.object_ids) == {str(first.pk), str(second.pk)}
    assert entry.patient_ids == [uid("patient", 1)]


def test_an_order_without_patient_or_transaction_still_has_a_page(
    client: Client, clinician: User
) -> None:
    get(client, make(user_id=None, order_transaction_id=None, patient_name=""))


def test_an_order_gone_at_the_service_says_so(client: Client, clinician: User) -> None:
    page = get(client, make(missing_since=timezone.now())).content.decode()
    assert "The service no longer has this order" in page


@pytest.mark.parametrize(("role", "sees"), [("clinician", False), ("lab admin", True)])
def test_the_record_as_received_is_for_some_only(client: Client, role: str, sees: bool) -> None:
    client.force_login(staff(role))
    page = get(client, make()).content.decode()
    assert ("Record as received" in page) is sees
    assert ("&quot;shipment&quot;" in page) is sees


def test_a_viewer_sees_the_order_but_not_whose(client: Client) -> None:
    client.force_login(staff("viewer"))
    row = make(interpretation="critical", passthrough="Canary of ours")
    page = TIMES.sub("", get(client, row).content.decode().replace('id="critical"', ""))
    for words in (
        *("Maria", "Testperson", "Canary note", "Sample Street", "555", "E11.9"),
        *("Canary parcel", "Canary of ours", "TRK-1", "example.com/track", "ritical"),
    ):
        assert words not in page, words
    assert "courier-east" in page
    client.force_login(staff("front desk"))
    page = get(client, row).content.decode().replace('id="critical"', "")
    for words in ("Canary parcel", "Canary of ours", "TRK-1", "example.com/track"):
        assert words in page, words
    assert "ritical" not in page
    client.force_login(staff("clinician"))
    assert "Critical" in get(client, row).content.decode()


def test_others_are_refused_and_nothing_is_there_for_a_wrong_id(client: Client) -> None:
    row = make()
    client.force_login(staff("auditor"))
    assert client.get(f"/orders/{row.pk}/").status_code == 403
    client.force_login(staff("clinician"))
    assert client.get(f"/orders/{uuid4()}/").status_code == 404
    assert client.get("/orders/not-an-id/").status_code == 404
    assert client.post(f"/orders/{row.pk}/").status_code == 405


def test_the_number_of_queries_is_fixed(client: Client, clinician: User, result: Order) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            get(client, result)
        return len(seen)

    queries()  # the first page of a session also stores its CSRF secret
    few = queries()
    tell(result, "ordered", "requisition_created", "transit_customer", "with_customer")
    for n in range(2, 6):
        make(n)
    assert queries() == few <= 24


@pytest.mark.parametrize("low_level", ["sample_error", "do_not_process", "with_customer"])
def test_an_order_that_failed_promises_no_date(
    client: Client, clinician: User, low_level: str
) -> None:
    bucket = {"sample_error": "needs-action", "do_not_process": "closed"}.get(
        low_level, "with-patient"
    )
    status = "received" if low_level == "with_customer" else "failed"
    day = timezone.now().date() + timedelta(days=3)
    row = make(
        low_level_status=low_level,
        bucket=bucket,
        status=status,
        expected_result_by_date=day,
        **envelope("{}"),
    )
    page = client.get(f"/orders/{row.pk}/").content.decode()
    goes_on = low_level == "with_customer"
    assert ("Result expected by" in page) is goes_on
    assert ("same business day" in page) is goes_on


def handled(row: Order, outcome: str = "handled", **values: Any) -> Handling:
    by = staff("lab coordinator", "cora")
    given = {"reason": "Ordered again", "until": None, "event_id": row.last_event_id, **values}
    held = Handling(order_id=row.pk, outcome=outcome, by=by, at=timezone.now(), **given)
    held.save(force_insert=True)
    return held


def turn_shown(client: Client, row: Order) -> str:
    page = get(client, row).content.decode()
    section = page[page.index('<section class="turn"') :]
    return " ".join(strip_tags(section[: section.index("</section>")]).split())


def turn_in_list(client: Client) -> str:
    """Of the only order."""
    page = client.get("/orders/").content.decode()
    cell = page[page.index('<td data-label="Turn">') :]
    return " ".join(strip_tags(cell[: cell.index("</td>")]).split())


def test_an_order_whose_exception_was_handled_says_by_whom_when_and_how(
    client: Client, clinician: User
) -> None:
    row = make(low_level_status="lost", bucket="needs-action")
    before = turn_shown(client, row)
    assert "Our turn." in before and "Needs a person" in before
    assert turn_in_list(client).startswith("Us")
    held = handled(row)
    assert turn_in_list(client) == "Handled"
    words = turn_shown(client, row)
    assert "Handled by cora, " in words
    assert "just now: “Ordered again”. Back only if there is news." in words
    assert "Our turn" not in words and "Needs a person" not in words
    Handling.objects.update(reason="")
    assert "just now. Back only if there is news." in turn_shown(client, row)
    Handling.objects.update(
        outcome="voicemail", until=timezone.now() + timedelta(days=1), reason=""
    )
    words = turn_shown(client, row)
    assert "Handled by cora, " in words and "just now: voicemail. Back " in words
    Handling.objects.update(outcome="snoozed", reason="On a trip")
    words = turn_shown(client, row)
    assert "Put off by cora, " in words and "just now: “On a trip”. Back " in words
    assert turn_in_list(client) == "Put off"
    Handling.objects.update(until=timezone.now() - timedelta(minutes=1))
    assert turn_in_list(client).startswith("Us"), "it has come back"
    Handling.objects.update(until=timezone.now() + timedelta(days=1))
    Handling.objects.update(event_id=held.event_id - 1)
    words = turn_shown(client, row)
    assert "Our turn." in words and "Needs a person" in words, "there is news"
    assert "Last done: put off, cora" in words
    assert turn_in_list(client).startswith("Us")


def test_it_is_our_turn_until_the_result_is_signed(client: Client, clinician: User) -> None:
    row = make(low_level_status="completed", bucket="result-in")
    receive_result(row.pk, ("Sodium", "4.1", "normal"))
    assert "Our turn." in turn_shown(client, row) and turn_in_list(client).startswith("Us")
    sign(row.pk, 1, clinician)
    assert turn_in_list(client) == "Signed"
    words = turn_shown(client, row)
    assert "Signed: nothing is left to do." in words and "Our turn" not in words
    assert "Signed by " in get(client, row).content.decode()
    receive_result(row.pk, ("Sodium", "5.6", "abnormal"))
    assert "Our turn." in turn_shown(client, row), "a correction waits again"
    assert turn_in_list(client).startswith("Us")


def test_who_may_not_see_patients_learns_only_that_it_was_handled(client: Client) -> None:
    client.force_login(staff("viewer"))
    row = make(low_level_status="lost", bucket="needs-action")
    handled(row)
    words = turn_shown(client, row)
    assert "Handled" in words and "Needs a person" not in words
    assert "cora" not in words and "Ordered again" not in words


def test_that_it_was_handled_costs_no_query(client: Client, clinician: User) -> None:
    row = make(low_level_status="lost", bucket="needs-action")

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            get(client, row)
        return len(seen)

    queries()
    few = queries()
    handled(row)
    assert queries() == few


def test_a_corrected_result_is_not_called_final(client: Client, clinician: User) -> None:
    row = make(low_level_status="corrected", bucket="result-in")
    Result(
        order=row,
        status="final",
        date_collected="2026-10-15T17:56:52.743912+00:00",
        **envelope(),
    ).save()
    page = client.get(f"/orders/{row.pk}/").content.decode()
    assert "Corrected</span>" in page
    assert "Final</span>" not in page
    assert "Collected 2026" not in page


def test_a_kit_nobody_registered_says_so(client: Client, clinician: User) -> None:
    row = make(
        low_level_status="awaiting_registration",
        bucket="preparing",
        patient_first_name="",
        patient_last_name="",
        **envelope("{}"),
    )
    for place in ("", "why/", "cancel/"):
        page = client.get(f"/orders/{row.pk}/{place}").content.decode()
        assert "Kit without patient" in page, place
        assert "<bdi> </bdi>" not in page, place
    assert "no patient to tell" in page and "call them" not in page


def test_what_happened_is_one_stream_with_three_views(
    client: Client, clinician: User, rf: RequestFactory
) -> None:
    row = make(method="testkit")
    scans = ("transit_customer", "out_for_delivery") * 2
    tell(row, "ordered", *scans, "with_customer")
    for event in OrderEvent.objects.all():
        moment = datetime(2026, 3, 3, 12, event.event_id, tzinfo=UTC)  # all of one day
        OrderEvent.objects.filter(event_id=event.event_id).update(created_at=moment)
    request = rf.get("/")
    request.user = clinician
    add_note(request, "order", row.pk, "Called <them>", row.user_id)
    assign(request, "order", row.pk, clinician, row.user_id)

    def stream(show: str) -> list[str]:
        found = get(client, row, stream=show).context["activity"]
        return [one.change.what if one.change else one.text or one.term.value for one in found]

    milestones = ["with_customer", "3 delivery scans", "transit_customer", "ordered"]
    assert stream("milestones") == ["Note", *milestones]
    everything = stream("everything")
    assert everything[2:] == ["with_customer", *scans[::-1], "ordered"]
    assert everything[:2] == stream("people") and "Note" in everything[:2]
    page = get(client, row).content.decode()
    assert "Called &lt;them&gt;" in page
    assert all(f'id="event-{event.event_id}"' in page for event in OrderEvent.objects.all())
    assert client.get(f"/orders/{row.pk}/", {"stream": "x"}).status_code == 400
    client.force_login(staff("viewer"))
    assert "Called" not in get(client, row).content.decode()


def test_of_steps_of_one_moment_the_newest_stands_first(client: Client, clinician: User) -> None:
    row = make(method="testkit")
    tell(row, "ordered", "transit_customer", "with_customer")
    OrderEvent.objects.update(created_at=datetime(2026, 3, 3, 12, tzinfo=UTC))
    shown = [one.term.value for one in get(client, row).context["activity"]]
    assert shown == ["with_customer", "transit_customer", "ordered"]


def test_the_newest_step_is_never_folded_away(client: Client, clinician: User) -> None:
    """A visit that was moved: three steps of one family on one day."""
    row = make(method="at_home_phlebotomy", low_level_status="appointment_scheduled")
    tell(row, "ordered", "appointment_pending", *["appointment_scheduled"] * 3)
    for event in OrderEvent.objects.all():
        moment = datetime(2026, 3, 3, 12, event.event_id, tzinfo=UTC)
        OrderEvent.objects.filter(event_id=event.event_id).update(created_at=moment)
    answer = get(client, row)
    shown = [one.text or one.term.value for one in answer.context["activity"]]
    assert shown == ["appointment_scheduled", "2 steps between", "appointment_pending", "ordered"]
    assert answer.context["activity"][0].event_id == 4
