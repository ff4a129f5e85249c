"""The exception queue: groups, counts, order and access."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.access import roles_of
from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from orders.exceptions import queue
from orders.models import Order, UnmatchedResult
from tests.api.rows import envelope, staff, uid
from tests.orders.exceptions import (
    GROUP_OF,
    PHOENIX,
    count_groups,
    create_order,
    keys_in_group,
    send_outcome,
)

pytestmark = pytest.mark.django_db


def local_time(days: int) -> str:
    """Return a time on the clock of the patient, as the form of a card takes it."""
    return f"{(timezone.now() + timedelta(days=days)).astimezone(PHOENIX):%Y-%m-%dT%H:%M}"


def test_every_status_is_in_its_group_and_counted() -> None:
    rows = {low: create_order(n, low) for n, low in enumerate(GROUP_OF)}
    expected: dict[str, set[UUID]] = {}
    for low, group in GROUP_OF.items():
        if group:
            expected.setdefault(group, set()).add(rows[low].pk)
    assert {group: set(keys_in_group(group)) for group in expected} == expected
    assert count_groups() == {group: len(found) for group, found in expected.items()}


def test_counts_are_one_query_and_capped() -> None:
    for n in range(4):
        create_order(n)
    user = staff("lab coordinator")
    roles_of(user)
    with CaptureQueriesContext(connection) as seen:
        found = queue.group_counts(timezone.now(), user, cap=3)
    assert len(seen) == 1
    assert str(found["lost"]) == "3+"


def test_future_null_and_missing_orders_are_not_in_queue() -> None:
    """Null is not zero, and a future due date is not late."""
    create_order(1, "with_customer", days_over=-1)
    create_order(2, "with_customer", quiet_at=None)
    create_order(3, "lost", missing_since=timezone.now())
    late = create_order(4, "with_customer", days_over=0.001)
    assert count_groups() == {"quiet": 1}
    assert keys_in_group("quiet") == [late.pk]


def test_trouble_is_in_queue_before_its_time_is_over() -> None:
    """A redraw may wait for days before it is late, but it needs a person now."""
    row = create_order(1, "redraw_available", days_over=-2)
    assert keys_in_group("draw") == [row.pk]


def test_queue_is_sorted_by_longest_overdue_across_pages(client: Client, coordinator: User) -> None:
    rows = [create_order(n, days_over=n) for n in range(1, queue.PAGE_SIZE + 4)]
    first = client.get("/exceptions/", {"size": queue.PAGE_SIZE})
    shown = [row.order.pk for row in first.context["rows"]]
    assert shown == [row.pk for row in rows[::-1]][: queue.PAGE_SIZE]
    card = client.get(f"/exceptions/lost/{rows[0].pk}/")
    assert [row.order.pk for row in card.context["rows"]] == shown
    assert "Show all" in card.content.decode()
    place = {"group": "lost", "after": first.context["page"].next}
    shown += [row.order.pk for row in client.get("/exceptions/", place).context["rows"]]
    assert shown == [row.pk for row in rows[::-1]]


def test_address_of_a_group_leads_to_its_tab(client: Client, coordinator: User) -> None:
    answer = client.get("/exceptions/lost/")
    assert (answer.status_code, answer.headers["location"]) == (302, "/exceptions/?group=lost")


def test_each_group_has_its_own_sorts(client: Client, coordinator: User) -> None:
    """A sort that a group does not have leads to its default."""
    rows = [create_order(n, patient_name=f"maria{n}") for n in range(1, 4)]
    query = {"group": "lost", "order_key": "patient", "order_direction": "desc"}
    shown = client.get("/exceptions/", query).context["rows"]
    assert [row.order.pk for row in shown] == [row.pk for row in rows[::-1]]
    for row, days in zip(rows, (2, 3, 1), strict=True):
        send_outcome(client, row, "snoozed", reason="Away", at=local_time(days))
    answer = client.get("/exceptions/", {**query, "group": "put-off"})
    assert [row.order.pk for row in answer.context["rows"]] == [rows[n].pk for n in (2, 0, 1)], (
        "first what comes back first"
    )
    assert answer.context["list"].sort == "due"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"assigned": "me"}, [1]),
        ({"assigned": "nobody"}, [2, 3]),
        ({"method": "walk_in_test"}, [2]),
        ({"lab": "lab-east"}, [3]),
        ({"outcome": "voicemail"}, [3]),
        ({"patient": str(uid("patient", 2))}, [2]),
        ({"ordered": "today"}, []),
    ],
)
def test_filters_narrow_the_open_group(
    client: Client, coordinator: User, query: dict[str, str], found: list[int]
) -> None:
    rows = {
        1: create_order(1),
        2: create_order(2, method="walk_in_test", user_id=uid("patient", 2)),
        3: create_order(3, lab_slug="lab-east"),
    }
    client.post(f"/exceptions/lost/{rows[1].pk}/take/")
    send_outcome(client, rows[3], "voicemail")
    Order.objects.filter(pk=rows[3].pk).update(last_event_id=rows[3].last_event_id + 1)
    for group in ("lost", ""):
        shown = client.get("/exceptions/", {"group": group, **query}).context["rows"]
        assert {row.order.pk for row in shown} == {rows[n].pk for n in found}


def test_snoozed_orders_can_be_filtered_and_downloaded(client: Client, coordinator: User) -> None:
    rows = [create_order(n, lab_slug=f"lab-{n}") for n in range(1, 3)]
    for row in rows:
        send_outcome(client, row, "snoozed", reason="Away", at=local_time(1))
    query = {"group": "put-off", "lab": "lab-2"}
    shown = client.get("/exceptions/", query).context["rows"]
    assert [row.order.pk for row in shown] == [rows[1].pk]
    answer = client.post("/exceptions/export/", {"query": urlencode(query), "everything": "1"})
    lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 2 and "Maria2" in lines[1] and "Snoozed" in lines[1]


def test_download_of_group_has_order_of_its_page(client: Client, coordinator: User) -> None:
    for n, days in ((1, 3), (2, 1), (3, 2)):
        send_outcome(client, create_order(n), "snoozed", reason="Away", at=local_time(days))
    shown = client.get("/exceptions/", {"group": "put-off"}).context["rows"]
    names = [row.order.patient_first_name for row in shown]
    assert names == ["Maria2", "Maria3", "Maria1"]
    answer = client.post("/exceptions/export/", {"query": "group=put-off", "everything": "1"})
    lines = b"".join(answer.streaming_content).decode().splitlines()[1:]  # type: ignore[attr-defined]
    assert [name for line in lines for name in names if name in line] == names


def test_queue_opens_first_group_with_entries(client: Client, coordinator: User) -> None:
    assert "All clear" in client.get("/exceptions/").content.decode()
    create_order(1, "redraw_available")
    page = client.get("/exceptions/").content.decode()
    assert "Maria1 Testperson" in page and "3 d overdue" in page
    assert "No exceptions in this group" in client.get("/exceptions/?group=lost").content.decode()


def test_requests_and_unmatched_results_are_in_queue(client: Client, coordinator: User) -> None:
    UnmatchedResult(
        id=uid("unmatched", 1), status="pending_customer_review", decision_code="x",
        lab_name="North laboratory", created_at=timezone.now(),
        updated_at=timezone.now(), **envelope(),
    ).save()  # fmt: skip
    CommandRecord(
        kind="x", title="Cancel the order", subject_type="order", subject_id="1", payload={},
        form_id=uid("form", 1), requested_by=coordinator, idempotency_key=uid("key", 1),
        state="undecided",
    ).save()  # fmt: skip
    assert count_groups() == {"stuck": 1, "unknown": 1}
    assert "North laboratory" in client.get("/exceptions/?group=stuck").content.decode()
    assert "Needs your decision" in client.get("/exceptions/?group=unknown").content.decode()


def test_counts_include_only_visible_exceptions(client: Client) -> None:
    """The front desk does not match results, so unmatched results are not counted for it."""
    UnmatchedResult(
        id=uid("unmatched", 1), status="pending_customer_review", decision_code="x",
        lab_name="North laboratory", created_at=timezone.now(),
        updated_at=timezone.now(), **envelope(),
    ).save()  # fmt: skip
    assert count_groups() == {"stuck": 1}
    assert count_groups("front desk") == {}
    client.force_login(staff("front desk"))
    assert "All clear" in client.get("/exceptions/").content.decode()
    page = client.get("/today/").content.decode()
    _, _, tiles = page.partition("Nothing in:")
    assert 'href="/exceptions/"' in tiles.partition("</p>")[0]


def test_queue_requires_permission(client: Client) -> None:
    row = create_order(1)
    for role in ("viewer", "auditor"):
        client.force_login(staff(role))
        for path in ("", "lost/", f"lost/{row.pk}/"):
            assert client.get(f"/exceptions/{path}").status_code == 403
        assert send_outcome(client, row, "spoke").status_code == 403
    client.force_login(staff("front desk"))
    page = client.get("/exceptions/").content.decode()
    assert "Maria1" in page and "Critical results" not in page
    assert client.get("/exceptions/critical/").status_code == 404
    refused = client.get("/exceptions/?group=critical")
    assert refused.status_code == 400
    assert "Your role does not show results." in refused.content.decode()
    assert client.get("/exceptions/nonsense/").status_code == 404
    assert client.get(f"/exceptions/lost/{uid('order', 99)}/").status_code == 404
    client.logout()
    assert client.get("/exceptions/").status_code == 302


def test_views_and_changes_are_recorded(client: Client, coordinator: User) -> None:
    row = create_order(1)
    client.get("/exceptions/?group=lost")
    client.get(f"/exceptions/lost/{row.pk}/")
    send_outcome(client, row, "spoke")
    done = AuditEntry.objects.filter(patient_ids__contains=[row.user_id])
    assert list(done.order_by("pk").values_list("action", "object_type")) == [
        ("list", "exception"),
        ("view", "exception"),
        ("change", "contact"),
    ]


@pytest.fixture
def warm_session(client: Client, coordinator: User) -> None:
    client.get("/exceptions/")  # the first page of a session also stores its CSRF secret


def test_query_count_is_fixed(client: Client, warm_session: None) -> None:
    def count_queries(path: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(path).status_code == 200
        return len(seen)

    row = create_order(0)
    few = count_queries("/exceptions/?group=lost"), count_queries(f"/exceptions/lost/{row.pk}/")
    for n in range(1, 12):
        send_outcome(client, create_order(n), "spoke")
        create_order(100 + n)
    many = count_queries("/exceptions/?group=lost"), count_queries(f"/exceptions/lost/{row.pk}/")
    assert many == few
    assert few[0] <= 15 and few[1] <= 26, few


def test_groups_can_be_read_by_their_indexes() -> None:
    """Large tables need these indexes. Here the plans only have to be possible."""
    now = datetime(2026, 11, 20, tzinfo=UTC)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        for key, name in (
            ("lost", "exception_lost"),
            ("stuck", "exception_stuck"),
            ("delivery", "exception_delivery"),
            ("draw", "exception_draw"),
            ("quiet", "exception_quiet"),
        ):
            rows = queue.group_orders(key, now).order_by("quiet_at", "id")[:25]
            assert name in rows.explain(), (key, rows.explain())
