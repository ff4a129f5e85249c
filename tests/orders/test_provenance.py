"""Why do we believe this? From an order's state to the event, look-up or run that told it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.audit.models import AuditEntry
from backoffice.sync.models import Lookup, SyncRun
from orders.models import Appointment, CriticalResult, Order, OrderEvent, Result
from tests.api.rows import NOW, envelope, order, staff, uid
from tests.webhooks.events import event

pytestmark = pytest.mark.django_db

KEY = str(uid("order", 1))
STEPS = ("ordered", "requisition_created", "transit_customer", "delivered_to_lab")


def place(as_of: Any = NOW, **values: Any) -> Order:
    row = order(1, as_of=as_of, method="testkit", lab_test_name="Made-up panel", **values)
    row.save()
    for n, status in enumerate(STEPS):
        OrderEvent.objects.create(
            order_id=row.pk,
            event_id=n,
            created_at=NOW - timedelta(hours=9 - n),
            status=f"x.testkit.{status}",
            low_level_status=status,
        )
    return row


def tell(n: int, steps: int, **values: Any) -> Any:
    """Event `n` about the order, carrying its first `steps` steps."""
    told = [
        {"id": i, "status": s, "created_at": "2026-11-20T08:00:00Z"} for i, s in enumerate(STEPS)
    ]
    return event(n, data={"id": KEY, "events": told[:steps]}, **values)


def get(client: Client, role: str = "lab admin") -> Any:
    client.force_login(staff(role, f"{role}-{AuditEntry.objects.count()}"))
    answer = client.get(f"/orders/{KEY}/why/")
    assert answer.status_code == 200
    return answer


def run(minutes_ago: float, took: float = 1, **values: Any) -> SyncRun:
    begun = NOW - timedelta(minutes=minutes_ago)
    return SyncRun.objects.create(
        **{
            "resource": "orders",
            "full": False,
            "state": "done",
            "created_at": begun,
            "started_at": begun,
            "finished_at": begun + timedelta(minutes=took),
            **values,
        }
    )


def sources(answer: Any) -> dict[str, str]:
    return {value.label: value.source.kind for value in answer.context["sourced_values"]}


def test_an_event_said_so(client: Client) -> None:
    tell(1, 2)
    row = tell(2, 4)
    place(as_of=row.received_at)
    run(minutes_ago=-1, took=2)  # Runs at the same moment: the event has said it all the same.
    answer = get(client)
    assert sources(answer) == {"Status of the order": "event"}
    page = answer.content.decode()
    for words in ("told us by webhook", f"/system/events/{row.pk}/", "its signature valid"):
        assert words in page, words


@pytest.mark.parametrize(("full", "words"), [(True, "A sweep over all"), (False, "what changed")])
def test_a_run_read_it(client: Client, full: bool, words: str) -> None:
    place(as_of=NOW)
    run(5, took=2)
    found = run(1, took=2, full=full)
    run(-1, took=2)
    answer = get(client)
    assert sources(answer) == {"Status of the order": "run"}
    assert answer.context["sourced_values"][0].source.run == found
    assert words in answer.content.decode()


def test_a_run_that_has_not_ended_read_it(client: Client) -> None:
    place(as_of=NOW)
    run(1, state="running", finished_at=None)
    assert sources(get(client)) == {"Status of the order": "run"}


def test_a_look_up_read_it(client: Client) -> None:
    place(as_of=NOW)
    run(1, took=2)
    Lookup.objects.create(kind="orders", key=KEY, looked_at=NOW + timedelta(seconds=1))
    answer = get(client)
    assert sources(answer) == {"Status of the order": "look-up"}
    assert "asked the service for this record directly" in answer.content.decode()


def test_nothing_on_record_is_said_so(client: Client) -> None:
    place(as_of=NOW)
    answer = get(client)
    assert sources(answer) == {"Status of the order": "read"}
    page = answer.content.decode()
    assert "the run itself is no longer on record" in page
    assert "no event about this order" in page


def test_a_later_read_confirms(client: Client) -> None:
    row = tell(1, 4)
    place(as_of=row.received_at)
    later = run(-60, full=True)
    assert get(client).context["sourced_values"][0].source.confirmed_at == later.started_at
    assert "unchanged" in get(client).content.decode()


def test_the_result_and_the_visit_have_their_own_sources(client: Client) -> None:
    place(as_of=NOW)
    Result.objects.create(order_id=uid("order", 1), status="final", **envelope(as_of=NOW))
    Appointment.objects.create(
        id=uid("draw", 1),
        order_id=uid("order", 1),
        type="phlebotomy",
        provider="made-up",
        status="confirmed",
        event_status="scheduled",
        **envelope(as_of=NOW),
    )
    Lookup.objects.create(kind="results", key=KEY, looked_at=NOW + timedelta(days=1))
    answer = get(client)
    assert sources(answer) == {
        "Status of the order": "read",
        "Result": "look-up",
        "Visit": "read",
    }
    assert answer.context["sourced_values"][1].source.confirmed_at == NOW + timedelta(days=1)


@pytest.mark.parametrize(("role", "sees"), [("clinician", True), ("viewer", False)])
def test_a_critical_result_leads_to_the_event_that_warned(
    client: Client, role: str, sees: bool
) -> None:
    place()
    row = event(1, "labtest.result.critical", data={"order_id": KEY})
    CriticalResult.objects.create(
        order_id=uid("order", 1),
        interpretation="critical",
        first_heard_at=row.received_at,
        heard_at=row.received_at,
        event_number=row.pk,
        message_id=row.message_id,
    )
    answer = get(client, role)
    assert (sources(answer).get("Warning of the lab") == "event") is sees


def test_each_step_leads_to_the_first_event_that_told_it(client: Client) -> None:
    one, two = tell(1, 2), tell(2, 3)
    tell(3, 3)
    place()
    steps = get(client).context["steps"]
    assert [step.row and step.row.event.pk for step in steps] == [None, two.pk, one.pk, one.pk]


@pytest.mark.parametrize("state", ["dead", "quarantined"])
def test_an_event_that_changed_nothing_told_no_step(client: Client, state: str) -> None:
    tell(1, 2, state=state)
    two = tell(2, 2)
    place()
    steps = get(client).context["steps"]
    assert [step.row and step.row.event.pk for step in steps] == [None, None, two.pk, two.pk]


def test_roles(client: Client) -> None:
    row = tell(1, 2)
    place(patient_first_name="Canary", patient_name="canary sample")
    page = get(client, "viewer").content.decode()
    assert "Canary" not in page
    assert f"/system/events/{row.pk}/" not in page
    assert "Order changed" in page
    client.force_login(staff("auditor"))
    assert client.get(f"/orders/{KEY}/why/").status_code == 403


def test_it_is_recorded_and_linked(client: Client) -> None:
    place()
    get(client)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.object_type, entry.object_ids) == ("view", "order", [KEY])
    assert f"/orders/{KEY}/why/" in client.get(f"/orders/{KEY}/").content.decode()


def test_an_order_that_is_not_there(client: Client) -> None:
    client.force_login(staff("clinician"))
    assert client.get(f"/orders/{KEY}/why/").status_code == 404


def test_queries_are_fixed(client: Client) -> None:
    place()
    client.force_login(staff("lab admin"))

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(f"/orders/{KEY}/why/")
        return len(seen)

    queries()
    one = queries()
    for n in range(1, 40):
        tell(n, 4)
        run(n)
    assert queries() == one
    # Session, user with roles; order, steps, events, look-ups, runs, result, its versions, critical
    # one, visits, the frame; audit in its transaction.
    assert one == 12 + 3
