"""What was known about an order at a past moment, from stored events and versions."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.audit.models import AuditEntry
from orders.models import Appointment, Order, OrderPatientChange, Result, ResultVersion
from tests.api.rows import NOW, envelope, order, staff, uid
from tests.dom import Node, parse
from tests.webhooks.events import event
from webhooks.models import Event

pytestmark = pytest.mark.django_db

KEY = str(uid("order", 1))
STATUSES = ("ordered", "requisition_created", "transit_customer", "delivered_to_lab")
PAGE = f"/orders/{KEY}/why/"


def order_data(steps: int, **values: Any) -> dict[str, Any]:
    """Return the order as the service sends it after some steps, an hour apart."""
    events = [
        {
            "id": n,
            "created_at": (NOW + timedelta(hours=n)).isoformat(),
            "status": f"received.testkit.{status}",
        }
        for n, status in enumerate(STATUSES[:steps])
    ]
    return {
        "id": KEY,
        "user_id": str(uid("patient", 1)),
        "updated_at": events[-1]["created_at"],
        "lab_test": {"name": "Made-up panel", "method": "testkit"},
        "patient_details": {"first_name": "Canary", "last_name": "Sample", "dob": "1980-02-03"},
        "events": events,
        **values,
    }


def create_event(n: int, steps: int, **values: Any) -> Event:
    """Create an event with the order after some steps, received at that hour."""
    received = values.pop("received_at", NOW + timedelta(hours=n, seconds=10))
    return event(
        n, data=order_data(steps, **values.pop("record", {})), received_at=received, **values
    )


def create_order(as_of: datetime, now: dict[str, Any] | None = None, **values: Any) -> Order:
    row = order(1, as_of=as_of, record=json.dumps(now or order_data(4)), method="testkit", **values)
    row.save()
    return row


def create_version(number: int, hours: float, text: str) -> None:
    line = {"name": "Glucose", "slug": "glucose", "text": text, "unit": "mg/dL"}
    ResultVersion.objects.create(
        order_id=uid("order", 1),
        number=number,
        received_at=NOW + timedelta(hours=hours),
        kind="final" if number == 1 else "corrected",
        returned=1,
        digest=hashlib.sha256(text.encode()).digest(),
        content={"status": "final", "corrections": number - 1, "lines": [line]},
    )


def hours_later(number: float) -> str:
    return f"{NOW + timedelta(hours=number):%Y-%m-%dT%H:%M:%SZ}"


def get_page(client: Client, at: str, role: str = "lab coordinator") -> Any:
    client.force_login(staff(role, f"{role}-{AuditEntry.objects.count()}"))
    return client.get(PAGE, {"at": at})


def node_by_id(answer: Any, key: str) -> Node:
    found = parse(answer.content.decode()).by_id(key)
    assert found is not None, key
    return found


def known_text(answer: Any) -> str:
    return " ".join(node_by_id(answer, "then").text.split())


def past_record(answer: Any, title: str = "Order") -> Any:
    assert answer.status_code == 200
    return next(one for one in answer.context["records"] if one.title == title)


def past_and_current(record: Any) -> dict[str, tuple[str, str]]:
    def text(value: Any) -> str:
        return value.term.value if value.term else str(value.day or value.moment or value.text)

    return {row.label: (text(row.then), text(row.now)) for row in record.rows}


def test_past_moment_shows_last_event_before_moment(client: Client) -> None:
    create_event(1, 1)
    create_event(2, 2)
    last = create_event(4, 4)
    create_order(last.received_at)
    found = past_record(get_page(client, hours_later(3)))
    assert past_and_current(found)["Status"] == ("requisition_created", "delivered_to_lab")
    assert past_and_current(found)["Steps"] == ("2", "4")
    assert not found.is_current and found.next_at == last.applied_at
    changed = {row.label for row in found.changed}
    assert changed == {"Status", "Steps", "Changed at the lab service"}


def test_moment_after_last_event_equals_current_state(client: Client) -> None:
    create_event(1, 1)
    last = create_event(4, 4)
    create_order(last.received_at)
    answer = get_page(client, hours_later(5))
    assert past_record(answer).is_current and past_record(answer).changed == []
    assert "This is the current version." in answer.content.decode()


def test_moment_before_first_event_is_not_known(client: Client) -> None:
    first = create_event(1, 1)
    create_order(NOW + timedelta(hours=6))
    answer = get_page(client, hours_later(0.5))
    found = past_record(answer)
    assert (found.version, found.oldest_at, found.rows) == (None, first.applied_at, [])
    words = known_text(answer)
    assert "Unknown: nothing received before" in words and "Made-up panel" not in words


def test_event_counts_from_when_it_was_applied(client: Client) -> None:
    create_event(1, 1)
    create_event(2, 2, applied_at=NOW + timedelta(hours=3))
    create_order(NOW + timedelta(hours=6))
    assert past_and_current(past_record(get_page(client, hours_later(2.5))))["Steps"][0] == "1"
    assert past_and_current(past_record(get_page(client, hours_later(3.5))))["Steps"][0] == "2"


@pytest.mark.parametrize(
    "values",
    [
        {"outcome": "stale"},
        {"outcome": "looked up"},
        {"state": "dead", "outcome": "failed"},
        {"state": "quarantined", "outcome": "foreign team"},
        {"record": {"updated_at": None}},
        {"record": {"updated_at": "2126-01-01T00:00:00Z"}},
    ],
)
def test_ineffective_event_is_no_version(client: Client, values: dict[str, Any]) -> None:
    create_event(1, 1)
    create_event(2, 3, **values)
    create_order(NOW + timedelta(hours=6))
    assert past_and_current(past_record(get_page(client, hours_later(3))))["Steps"][0] == "1"


def test_read_record_is_known_since_request_was_sent(client: Client) -> None:
    create_event(1, 1)
    create_order(NOW + timedelta(hours=2))
    create_event(4, 4, outcome="unchanged")
    found = past_record(get_page(client, hours_later(3)))
    assert found.version.source == "read" and found.is_current
    assert past_and_current(past_record(get_page(client, hours_later(1.5))))["Steps"] == ("1", "4")


def test_removed_event_body_is_reported(client: Client) -> None:
    create_event(1, 1)
    create_event(2, 2, body=None)
    create_order(NOW + timedelta(hours=6))
    answer = get_page(client, hours_later(3))
    found = past_record(answer)
    assert found.version.values is None and found.rows == []
    assert "the content of this update was deleted" in answer.content.decode()


def test_missing_order_is_named(client: Client) -> None:
    create_event(1, 1)
    create_order(NOW + timedelta(hours=2), missing_since=NOW + timedelta(hours=4))
    assert past_record(get_page(client, hours_later(3))).missing_since is None
    assert (
        "No longer listed by the lab service since"
        in get_page(client, hours_later(5)).content.decode()
    )


def test_past_result_is_shown_beside_current_one(client: Client) -> None:
    create_event(1, 1)
    create_order(NOW + timedelta(hours=2))
    Result.objects.create(order_id=uid("order", 1), **envelope(as_of=NOW + timedelta(hours=4)))
    create_version(1, 3, "90")
    create_version(2, 4, "140")
    found = past_record(get_page(client, hours_later(3.5)), "Result")
    assert past_and_current(found)["Glucose"] == ("90 mg/dL", "140 mg/dL")
    assert past_and_current(found)["Announced corrections"] == ("0", "1")
    assert found.version.number == 1
    assert past_record(get_page(client, hours_later(2.5)), "Result").version is None


def test_result_needs_its_permission(client: Client) -> None:
    create_event(1, 1)
    create_order(NOW + timedelta(hours=2))
    create_version(1, 3, "90")
    answer = get_page(client, hours_later(3.5), "front desk")
    assert [one.title for one in answer.context["records"]] == ["Order"]
    assert "Glucose" not in answer.content.decode()


def create_visit(n: int, as_of: datetime, **values: Any) -> Appointment:
    data = {"id": str(uid("draw", n)), "status": values.get("status", "confirmed")}
    return Appointment.objects.create(
        **{
            "id": uid("draw", n),
            "order_id": uid("order", 1),
            "type": "phlebotomy",
            "provider": "made-up",
            "status": "confirmed",
            "event_status": "scheduled",
            **envelope(json.dumps(data), as_of),
            **values,
        }
    )


def test_past_visit_is_shown_beside_current_one(client: Client) -> None:
    create_order(NOW)
    data = {"id": str(uid("draw", 1)), "order_id": KEY, "status": "pending"}
    event(3, "labtest.appointment.updated", data=data, received_at=NOW + timedelta(hours=3))
    create_visit(1, NOW + timedelta(hours=4))
    found = past_record(get_page(client, hours_later(3.5)), "Visit")
    assert past_and_current(found)["Status"] == ("pending", "confirmed")
    assert past_record(get_page(client, hours_later(4.5)), "Visit").is_current
    assert past_record(get_page(client, hours_later(2)), "Visit").version is None


def test_replaced_visit_is_named(client: Client) -> None:
    create_order(NOW)
    create_visit(1, NOW + timedelta(hours=1), superseded_at=NOW + timedelta(hours=2))
    assert past_record(get_page(client, hours_later(1.5)), "Visit").superseded_at is None
    assert "Replaced by another visit" in get_page(client, hours_later(3)).content.decode()


def test_past_warning_is_shown_beside_current_one(client: Client) -> None:
    create_order(NOW)
    for n, word in ((1, "abnormal"), (2, "critical")):
        data = {"order_id": KEY, "interpretation": word, "status": "partial"}
        received = NOW + timedelta(hours=n)
        event(n, "labtest.result.critical", data=data, received_at=received)
    found = past_record(get_page(client, hours_later(1.5)), "Critical result alert from the lab")
    assert past_and_current(found)["Interpretation"] == ("abnormal", "critical")


def test_order_of_another_patient_is_named_and_recorded(client: Client) -> None:
    other, own = uid("patient", 2), uid("patient", 1)
    create_event(1, 1, record={"user_id": str(other)})
    create_order(NOW + timedelta(hours=3))
    Order.objects.filter(pk=KEY).update(user_id=own)
    OrderPatientChange.objects.all().delete()
    moved = NOW + timedelta(hours=3)
    OrderPatientChange.objects.create(order_id=KEY, before=other, after=own, at=moved)
    answer = get_page(client, hours_later(2))
    assert "belonged to another patient" in answer.content.decode()
    assert past_and_current(past_record(answer))["Patient ID"] == (str(other), str(own))
    assert {*AuditEntry.objects.latest("pk").patient_ids} == {own, other}
    assert "belonged to another patient" not in get_page(client, hours_later(4)).content.decode()


def test_names_need_their_permission(client: Client) -> None:
    create_event(1, 1)
    create_order(NOW + timedelta(hours=2))
    answer = get_page(client, hours_later(1.5), "viewer")
    assert past_record(answer).hidden == 3
    page = answer.content.decode()
    assert "Canary" not in page and "1980" not in page
    assert "3 fields are hidden for your role." in page
    assert "Canary" in get_page(client, hours_later(1.5)).content.decode()


def test_other_changed_members_require_record_permission(client: Client) -> None:
    create_event(1, 1, record={"details": {"data": {"made_up": "before"}, "same": 1}})
    create_order(
        NOW + timedelta(hours=2),
        order_data(4, details={"data": {"made_up": "after"}, "same": 1}),
    )
    found = past_and_current(past_record(get_page(client, hours_later(1.5), "lab admin")))
    assert found["Details › data › made up"] == ("before", "after")
    assert "Details › same" not in found
    assert "Details › data › made up" not in past_and_current(
        past_record(get_page(client, hours_later(1.5)))
    )


def test_typed_time_redirects_to_shareable_url(client: Client) -> None:
    create_order(NOW)
    user = staff("clinician")
    client.force_login(user)
    answer = client.get(PAGE, {"at": "2026-11-20T13:05"})
    assert answer.status_code == 302
    shared = answer["location"].removeprefix(f"{PAGE}?at=")
    assert shared.endswith(":05:59Z")  # The whole minute is included.
    shown = client.get(answer["location"])
    assert shown.context["moment"].isoformat() == shared.replace("Z", "+00:00")
    assert node_by_id(shown, "id_at").given["value"] == "2026-11-20T13:05"


def test_slider_stop_redirects_to_url(client: Client) -> None:
    create_event(1, 1)
    create_event(2, 2)
    create_order(NOW + timedelta(hours=3))
    client.force_login(staff("clinician"))
    page = client.get(PAGE)
    links = [node.given["href"] for node in node_by_id(page, "stops").walk() if node.tag == "a"]
    assert links == [f"?at={hours_later(one)}" for one in (1 + 12 / 3600, 2 + 12 / 3600, 3)]
    assert node_by_id(page, "id_stop").given["max"] == "2"
    for stop, link in enumerate(links):
        assert client.get(PAGE, {"stop": stop})["location"] == PAGE + link
    assert client.get(PAGE, {"stop": 99})["location"] == PAGE + links[-1]
    assert node_by_id(client.get(PAGE + links[0]), "id_stop").given["value"] == "0"


@pytest.mark.parametrize("at", ["2126-01-01T00:00", "yesterday", "2026-13-01T00:00", "\x00"])
def test_invalid_time_shows_error_at_its_field(client: Client, at: str) -> None:
    create_order(NOW)
    answer = get_page(client, at)
    assert answer.status_code == 400
    assert any(node.given.get("class") == "error" for node in node_by_id(answer, "then").walk())


def test_view_of_the_past_is_recorded(client: Client) -> None:
    create_order(NOW)
    get_page(client, hours_later(0))
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.object_type, entry.object_ids) == ("view", "order", [KEY])


def test_events_before_the_latest_hundred_are_read(client: Client) -> None:
    create_event(1, 1)
    for n in range(2, 104):
        create_event(n, 2, received_at=NOW + timedelta(hours=2, seconds=n), outcome="unchanged")
    create_order(NOW + timedelta(hours=6))
    assert past_and_current(past_record(get_page(client, hours_later(1.5))))["Steps"][0] == "1"


def test_query_count_of_past_is_fixed(client: Client) -> None:
    create_order(NOW + timedelta(hours=6))
    client.force_login(staff("lab admin"))

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(PAGE, {"at": hours_later(3)}).status_code == 200
        return len(seen)

    count_queries()
    one = count_queries()
    for n in range(1, 40):
        create_event(n, 2, received_at=NOW + timedelta(hours=1, minutes=n))
        create_version(n, 2, str(n))
    assert count_queries() == one
    # The queries of the page, and the moves.
    assert one == 12 + 3 + 1
