"""Provenance of an order's state: the event, lookup or sync run that reported it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.audit.models import AuditEntry
from backoffice.sync.models import Lookup, SyncRun
from orders.models import Appointment, CriticalAnnouncement, Order, OrderEvent, Result
from tests.api.rows import NOW, envelope, order, staff, uid
from tests.webhooks.events import event

pytestmark = pytest.mark.django_db

KEY = str(uid("order", 1))
STEPS = ("ordered", "requisition_created", "transit_customer", "delivered_to_lab")


def create_order(as_of: Any = NOW, **values: Any) -> Order:
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


def create_event(n: int, steps: int, **values: Any) -> Any:
    """Create event `n` about the order with its first `steps` steps."""
    events = [
        {"id": i, "status": s, "created_at": "2026-11-20T08:00:00Z"} for i, s in enumerate(STEPS)
    ]
    return event(n, data={"id": KEY, "events": events[:steps]}, **values)


def get_page(client: Client, role: str = "lab admin") -> Any:
    client.force_login(staff(role, f"{role}-{AuditEntry.objects.count()}"))
    answer = client.get(f"/orders/{KEY}/why/")
    assert answer.status_code == 200
    return answer


def create_run(minutes_ago: float, duration: float = 1, **values: Any) -> SyncRun:
    started_at = NOW - timedelta(minutes=minutes_ago)
    return SyncRun.objects.create(
        **{
            "resource": "orders",
            "full": False,
            "state": "done",
            "created_at": started_at,
            "started_at": started_at,
            "finished_at": started_at + timedelta(minutes=duration),
            **values,
        }
    )


def sources(answer: Any) -> dict[str, str]:
    return {value.label: value.source.kind for value in answer.context["sourced_values"]}


def test_event_is_source_of_status(client: Client) -> None:
    create_event(1, 2)
    row = create_event(2, 4)
    create_order(as_of=row.received_at)
    create_run(
        minutes_ago=-1, duration=2
    )  # A run at the same moment does not change that the event is the source.
    answer = get_page(client)
    assert sources(answer) == {"Order status": "event"}
    page = answer.content.decode()
    for words in ("Sent by the lab service", f"/system/events/{row.pk}/", "with a valid signature"):
        assert words in page, words


@pytest.mark.parametrize(
    ("full", "words"), [(True, "sync of all orders"), (False, "sync of changed orders")]
)
def test_sync_run_is_source_of_status(client: Client, full: bool, words: str) -> None:
    create_order(as_of=NOW)
    create_run(5, duration=2)
    found = create_run(1, duration=2, full=full)
    create_run(-1, duration=2)
    answer = get_page(client)
    assert sources(answer) == {"Order status": "run"}
    assert answer.context["sourced_values"][0].source.run == found
    assert words in answer.content.decode()


def test_unfinished_sync_run_is_source_of_status(client: Client) -> None:
    create_order(as_of=NOW)
    create_run(1, state="running", finished_at=None)
    assert sources(get_page(client)) == {"Order status": "run"}


def test_lookup_is_source_of_status(client: Client) -> None:
    create_order(as_of=NOW)
    create_run(1, duration=2)
    Lookup.objects.create(kind="orders", key=KEY, looked_at=NOW + timedelta(seconds=1))
    answer = get_page(client)
    assert sources(answer) == {"Order status": "look-up"}
    assert "Checked directly with the lab service" in answer.content.decode()


def test_unrecorded_source_is_reported(client: Client) -> None:
    create_order(as_of=NOW)
    answer = get_page(client)
    assert sources(answer) == {"Order status": "read"}
    page = answer.content.decode()
    assert "The sync run is no longer on file" in page
    assert "No updates received about this order" in page


def test_later_run_confirms_status(client: Client) -> None:
    row = create_event(1, 4)
    create_order(as_of=row.received_at)
    later = create_run(-60, full=True)
    assert get_page(client).context["sourced_values"][0].source.confirmed_at == later.started_at
    assert "no change" in get_page(client).content.decode()


def test_result_and_visit_have_their_own_sources(client: Client) -> None:
    create_order(as_of=NOW)
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
    answer = get_page(client)
    assert sources(answer) == {
        "Order status": "read",
        "Result": "look-up",
        "Visit": "read",
    }
    assert answer.context["sourced_values"][1].source.confirmed_at == NOW + timedelta(days=1)


@pytest.mark.parametrize(("role", "is_visible"), [("clinician", True), ("viewer", False)])
def test_critical_result_links_to_warning_event(
    client: Client, role: str, is_visible: bool
) -> None:
    create_order()
    row = event(1, "labtest.result.critical", data={"order_id": KEY})
    CriticalAnnouncement.objects.create(
        order_id=uid("order", 1),
        interpretation="critical",
        first_heard_at=row.received_at,
        heard_at=row.received_at,
        event_number=row.pk,
        message_id=row.message_id,
    )
    answer = get_page(client, role)
    assert (sources(answer).get("Critical result alert from the lab") == "event") is is_visible


def test_each_step_links_to_first_event_with_it(client: Client) -> None:
    one, two = create_event(1, 2), create_event(2, 3)
    create_event(3, 3)
    create_order()
    steps = get_page(client).context["steps"]
    assert [step.row and step.row.event.pk for step in steps] == [None, two.pk, one.pk, one.pk]


@pytest.mark.parametrize("state", ["dead", "quarantined"])
def test_ineffective_event_is_source_of_no_step(client: Client, state: str) -> None:
    create_event(1, 2, state=state)
    two = create_event(2, 2)
    create_order()
    steps = get_page(client).context["steps"]
    assert [step.row and step.row.event.pk for step in steps] == [None, None, two.pk, two.pk]


def test_page_hides_names_and_requires_permission(client: Client) -> None:
    row = create_event(1, 2)
    create_order(patient_first_name="Canary", patient_name="canary sample")
    page = get_page(client, "viewer").content.decode()
    assert "Canary" not in page
    assert f"/system/events/{row.pk}/" not in page
    assert "Order updated" in page
    client.force_login(staff("auditor"))
    assert client.get(f"/orders/{KEY}/why/").status_code == 403


def test_view_is_recorded_and_linked_from_order(client: Client) -> None:
    create_order()
    get_page(client)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.object_type, entry.object_ids) == ("view", "order", [KEY])
    assert f"/orders/{KEY}/why/" in client.get(f"/orders/{KEY}/").content.decode()


def test_missing_order_is_404(client: Client) -> None:
    client.force_login(staff("clinician"))
    assert client.get(f"/orders/{KEY}/why/").status_code == 404


def test_query_count_is_fixed(client: Client) -> None:
    create_order()
    client.force_login(staff("lab admin"))

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(f"/orders/{KEY}/why/")
        return len(seen)

    count_queries()
    one = count_queries()
    for n in range(1, 40):
        create_event(n, 4)
        create_run(n)
    assert count_queries() == one
    # Session, user with roles; order, steps, events, lookups, runs, result, its versions, critical
    # result, visits, navigation; audit in its transaction.
    assert one == 12 + 3
