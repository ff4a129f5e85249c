"""The event log: what it shows to whom, its filters, its pages."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from tests.api.rows import NOW, demographics, patient, staff, uid
from tests.audit.trail import delete_all_entries
from tests.webhooks.events import event, event_body, failed
from webhooks import event_log
from webhooks.models import Event

pytestmark = pytest.mark.django_db

ADDRESS = "/system/events/"


@pytest.fixture
def admin(client: Client) -> User:
    user = staff("lab admin")
    client.force_login(user)
    return user


def shown(client: Client, *, code: int = 200, **query: Any) -> list[int]:
    """Message numbers of the events on the page, in their order."""
    answer = client.get(ADDRESS, query)
    assert answer.status_code == code, answer.content.decode()
    return [int(row.event.message_id.removeprefix("msg_")) for row in answer.context["rows"]]


def test_it_works(client: Client, admin: User) -> None:
    patient(1).save()
    demographics(1).save()
    event(
        1, data={"id": str(uid("order", 1)), "updated_at": (NOW - timedelta(minutes=4)).isoformat()}
    )
    failed(2, event_type="labtest.appointment.updated")
    page = client.get(ADDRESS).content.decode()
    for words in (
        "Order updated",
        "Appointment updated",
        "Ada1 Testperson",
        "Applied",
        "Expected `int`, got `str`",
        "<code>$.id</code>",
        "5 min",
        "2.0 s",
        "2 matches",
        "No events waiting",
        f"/patients/{uid('patient', 1)}/",
        f"/orders/{uid('order', 1)}/",
    ):
        assert words in page, words
    assert "Canary" not in page


def test_empty_inbox_and_empty_result_differ(client: Client, admin: User) -> None:
    assert b"No events yet" in client.get(ADDRESS).content
    event(1)
    assert b"No matching events" in client.get(ADDRESS, {"type": "provider"}).content
    assert b"No matching events" in client.get(ADDRESS, {"show": "failed"}).content


@pytest.fixture
def many(admin: User) -> None:
    event(1, "labtest.order.created", user=1)
    event(2, "labtest.appointment.updated", user=2, data={"order_id": str(uid("order", 1))})
    event(3, "daily.data.heartrate.created", user=1, data={"id": "hr-7"}, outcome="stale")
    event(4, "daily.data.heart_rate_alert.created", user=3, state="skipped", outcome="unknown type")
    failed(5, user=2)
    event(6, state="retry", outcome="", reason="DataError", applied_at=None)
    event(7, state="pending", outcome="", attempts=0, applied_at=None)
    event(8, state="quarantined", outcome="foreign team", deliveries=3, body_conflict=True)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"show": "failed"}, [5]),
        ({"show": "retrying"}, [6]),
        ({"show": "waiting"}, [7]),
        ({"show": "skipped"}, [4]),
        ({"show": "foreign"}, [8]),
        ({"show": "done"}, [3, 2, 1]),
        ({"type": "labtest.order"}, [8, 7, 6, 5, 1]),
        ({"type": "labtest.order."}, [8, 7, 6, 5, 1]),
        ({"type": "labtest"}, [8, 7, 6, 5, 2, 1]),
        ({"type": "labtest.order.created"}, [1]),
        ({"type": "daily.data.heart"}, []),
        ({"type": "daily.data.heartrate"}, [3]),
        ({"type": "daily"}, [4, 3]),
        ({"user_id": str(uid("patient", 2))}, [5, 2]),
        ({"subject_id": str(uid("order", 1))}, [2, 1]),
        ({"subject_id": " hr-7 "}, [3]),
        ({"message_id": "msg_4"}, [4]),
        ({"conflict": "on"}, [8]),
        ({"since": "2026-11-20T12:06:00Z"}, [8, 7, 6]),
        ({"until": "2026-11-20T12:02:00Z"}, [2, 1]),
        ({"since": "2026-11-20T12:02:00Z", "until": "2026-11-20T12:03:00Z"}, [3, 2]),
        ({"since": "2026-11-21"}, []),
        ({"until": "2026-11-19"}, []),
        ({"since": "2026-11-20", "until": "2026-11-20"}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"type": "labtest", "user_id": str(uid("patient", 1)), "show": "done"}, [1]),
    ],
)
def test_filters_combine(
    client: Client, many: None, query: dict[str, Any], expected: list[int]
) -> None:
    assert shown(client, **query) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"show": "nonsense"},
        {"user_id": "42"},
        {"type": "x" * 121},
        {"type": "a\x00"},
        {"subject_id": "a\x00"},
        {"message_id": "\x00"},
        {"since": "yesterday"},
    ],
)
def test_invalid_filter_shows_error(client: Client, many: None, query: dict[str, Any]) -> None:
    assert shown(client, code=400, **query) == []
    assert b'role="alert"' in client.get(ADDRESS, query).content


def test_dates_in_wrong_order_show_error(client: Client, many: None) -> None:
    query = {"since": "2026-11-21", "until": "2026-11-20"}
    assert shown(client, since=query["since"], until=query["until"]) == []
    assert b"This is before the first day." in client.get(ADDRESS, query).content


def test_tabs_show_number_of_events_by_state(client: Client, many: None) -> None:
    context = client.get(ADDRESS).context
    tabs = {tab.label: str(tab.count) for tab in context["tabs"] if tab.count}
    assert tabs == dict.fromkeys(
        ("Failed", "Retrying", "Waiting", "Skipped", "From another team"), "1"
    )
    assert str(event_log.state_counts(cap=2)["done"]) == "2+"


def test_type_filter_offers_groups_and_received_types(client: Client, many: None) -> None:
    choices = client.get(ADDRESS).context["filters"].fields["type"].choices
    assert list(choices) == [
        ("daily.data", "Device data (all)"),
        ("daily.data.heart_rate_alert.created", "Heart rate alert, new"),
        ("daily.data.heartrate.created", "Heartrate, new"),
        ("labtest.appointment", "Appointments (all)"),
        ("labtest.appointment.updated", "Appointment updated"),
        ("labtest.order", "Orders (all)"),
        ("labtest.order.created", "Order created"),
        ("labtest.order.updated", "Order updated"),
    ]


def test_tab_stays_with_filters_and_view(client: Client, many: None) -> None:
    page = client.get(ADDRESS, {"show": "failed", "type": "labtest"}).content.decode()
    assert '<input type="hidden" name="show" value="failed">' in page
    assert "?type=labtest&amp;show=done" in page
    query = {"name": "Mine", "query": "show=failed&type=labtest", "opens_for": ""}
    answer = client.post(f"{ADDRESS}views/", query, follow=True)
    assert [row.event.message_id for row in answer.context["rows"]] == ["msg_5"]


def test_download_has_no_payload(client: Client, many: None) -> None:
    patient(2).save()
    demographics(2).save()
    answer = client.post(f"{ADDRESS}export/", {"query": "show=failed", "everything": "1"})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    (line,) = csv.DictReader(io.StringIO(text))
    assert "Canary" not in text
    assert line["Type"] == "labtest.order.updated" and line["State"] == "dead"
    assert line["Patient"] == str(uid("patient", 2)) and line["Name"] == "Ada2 Testperson"
    entry = AuditEntry.objects.get(action="export")
    assert (entry.object_type, entry.patient_ids) == ("event", [uid("patient", 2)])


def test_oldest_waiting_event_is_shown(client: Client, admin: User) -> None:
    event(1, state="pending", received_at=timezone.now() - timedelta(hours=3))
    event(2, state="pending", received_at=timezone.now())
    assert b"Oldest waiting event: received 3 hours ago" in client.get(ADDRESS).content


def test_retry_waits_since_its_receipt(client: Client, admin: User) -> None:
    """Not since its next attempt fell due: that is later than much that came after it."""
    now = timezone.now()
    later = now + timedelta(hours=2)
    event(1, state="retry", received_at=now - timedelta(hours=12), due_at=later)
    event(2, state="retry", received_at=now - timedelta(hours=3), due_at=now)
    event(3, state="pending", received_at=now - timedelta(minutes=1))
    assert event_log.oldest_waiting() == now - timedelta(hours=12)
    assert b"Oldest waiting event: received 12 hours ago" in client.get(ADDRESS).content
    assert b"Received 12 hours ago" in client.get("/system/").content


def test_paging_shows_every_event_once_both_ways(client: Client, admin: User) -> None:
    for n in range(1, 124):
        event(n)
    first = client.get(ADDRESS).context["page"]
    second = client.get(ADDRESS, {"after": first.next}).context["page"]
    third = client.get(ADDRESS, {"after": second.next}).context["page"]
    met = [row.pk for page in (first, second, third) for row in page.rows]
    assert len(met) == len(set(met)) == 123
    assert third.next is None
    back = client.get(ADDRESS, {"before": third.previous}).context["page"]
    assert [row.pk for row in back.rows] == [row.pk for row in second.rows]


def test_pages_of_many_types_show_every_event_once(client: Client, admin: User) -> None:
    kinds = [f"historical.data.{name}.created" for name in ("hrv", "sleep", "steps")]
    for n in range(1, 161):
        event(n, "daily.data.hrv.created" if n % 5 == 0 else kinds[n % 7 % 3])
    expected = [n for n in range(160, 0, -1) if n % 5]
    for query in ({}, {"show": "done"}, {"since": "2026-11-20"}):
        first = client.get(ADDRESS, {"type": "historical.data", **query}).context
        assert str(first["total"]) == "128"
        met: list[int] = []
        page, pages = first["page"], [first["page"]]
        while page.next:
            given = {"type": "historical.data", "after": page.next, **query}
            page = client.get(ADDRESS, given).context["page"]
            pages.append(page)
        met = [int(row.message_id.removeprefix("msg_")) for page in pages for row in page.rows]
        assert met == expected
        given = {"type": "historical.data", "before": pages[2].previous, **query}
        back = client.get(ADDRESS, given).context["page"]
        assert [row.pk for row in back.rows] == [row.pk for row in pages[1].rows]


def test_page_of_many_types_does_not_scan_inbox(client: Client, admin: User) -> None:
    """Three old types among many newer events: their rows are read, not those between."""
    first = event(1, "historical.data.hrv.created")
    event(2, "historical.data.sleep.created")
    columns = {
        field.attname: getattr(first, field.attname)
        for field in Event._meta.concrete_fields
        if field.name != "id"
    }
    Event.objects.bulk_create(
        Event(**{**columns, "message_id": f"new_{n}", "event_type": "daily.data.hrv.created"})
        for n in range(5_000)
    )
    types = ["historical.data.hrv.created", "historical.data.sleep.created"]
    everything = (0, event_log.MAX_ID)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE webhooks_event")
    for descending in (True, False):
        page = Event.objects.first_of_types(types, everything, 51, descending=descending)
        plan = json.loads(page.explain(format="json", analyze=True))
        assert "event_of_type" in str(plan), plan
        assert most_rows(plan[0]["Plan"]) <= 4, plan
        assert {row.pk for row in page} == {first.pk, first.pk + 1}
        (one,) = Event.objects.first_of_types(types, everything, 1, descending=descending)
        assert one.pk == first.pk + descending
    assert Event.objects.first_of_types(types, everything, 1).count() == 1


def most_rows(plan: dict[str, Any]) -> float:
    """The most rows that any step of a plan met, thrown away ones included."""
    met = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return max([float(met), *(most_rows(step) for step in plan.get("Plans", []))])


def test_last_event_before_finds_id_by_time(admin: User) -> None:
    """Gaps in the numbers included: sequences leave them."""
    rows = [event(n) for n in range(1, 60)]
    Event.objects.filter(pk__in=[row.pk for row in rows[10:30]]).delete()
    for row in (rows[0], rows[5], rows[40], rows[58]):
        found = event_log.last_event_before(row.received_at + event_log.RECEIPT_SLACK)
        before = Event.objects.filter(received_at__lt=row.received_at).order_by("-pk").first()
        assert found == (before.pk if before else rows[0].pk - 1)
    assert event_log.last_event_before(NOW - timedelta(days=9)) == rows[0].pk - 1
    assert event_log.last_event_before(NOW + timedelta(days=9)) == rows[58].pk
    Event.objects.all().delete()
    assert event_log.last_event_before(NOW) == 0


def test_shown_events_are_audited(client: Client, many: None) -> None:
    delete_all_entries()
    shown(client, show="failed")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_type, entry.row_count) == ("list", "event", 1)
    assert entry.patient_ids == [uid("patient", 2)]


def test_the_number_of_queries_does_not_grow(client: Client, admin: User) -> None:
    def queries(**query: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(ADDRESS, query)
        return len(seen)

    event(1)
    queries()  # the first page of a session also stores its CSRF secret
    one = queries()
    for n in range(2, 130):
        patient(n).save()
        demographics(n).save()
        event(n, user=n)
    assert queries() == one
    # Session, user with roles; views, columns; total, page, names; states, types, oldest, rhythm,
    # runs, refused, the numbers of the frame; audit.
    assert one == 17
    assert queries(type="labtest", since="2026-11-20", until="2026-11-21") == one + 2
    event(130, "labtest.appointment.updated")
    assert queries(type="labtest", since="2026-11-20", until="2026-11-21") == one + 2


@pytest.mark.parametrize("role", ["viewer", "front desk", "clinician", "auditor"])
def test_roles_without_permission_see_no_event_log(client: Client, role: str) -> None:
    client.force_login(staff(role))
    assert client.get(ADDRESS).status_code == 403


def test_coordinator_sees_log_but_cannot_replay(client: Client) -> None:
    client.force_login(staff("lab coordinator"))
    row = failed(1)
    page = client.get(ADDRESS).content.decode()
    assert "Replay" not in page
    assert client.get(f"{ADDRESS}replay/").status_code == 403
    assert client.post(f"{ADDRESS}{row.pk}/replay/").status_code == 403


def test_navigation_counts_failed_events(client: Client, admin: User) -> None:
    assert b"failed events" not in client.get("/orders/").content
    failed(1)
    failed(2)
    assert b'2<span class="sr"> failed events' in client.get("/orders/").content
    client.force_login(staff("clinician"))
    assert b"failed events" not in client.get("/orders/").content


@pytest.mark.parametrize(
    ("event_type", "words"),
    [
        ("labtest.order.created", "Order created"),
        ("labtest.result.critical", "Critical result"),
        ("provider.connection.error", "Connection error"),
        ("daily.data.sleep_cycle.created", "Sleep cycle, new"),
        ("historical.data.heartrate.created", "Heartrate, history read"),
        ("lab_report.parsing_job.updated", "Uploaded report updated"),
        ("message.attempt.exhausted", "Failed delivery"),
        ("something.else", "something.else"),
        ("labtest.order.split.created", "labtest.order.split.created"),
        ("", "No type"),
    ],
)
def test_event_types_have_labels(event_type: str, words: str) -> None:
    assert event_log.type_label(event_type) == words


def test_event_with_non_json_body_is_listed(client: Client, admin: User) -> None:
    event(1, "", body=b"{\xff", state="dead", outcome="failed", reason="not JSON")
    event(2, body=event_body("labtest.order.updated", [1, 2]), data=[])
    event(3, body=None)
    assert shown(client) == [3, 2, 1]
