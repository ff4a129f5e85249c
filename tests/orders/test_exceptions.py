"""The exception queue: groups, counts, order and access."""

from __future__ import annotations

from datetime import UTC, datetime
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
from orders.models import UnmatchedResult
from tests.api.rows import envelope, staff, uid
from tests.orders.exceptions import (
    GROUP_OF,
    count_groups,
    create_order,
    keys_in_group,
    send_outcome,
)

pytestmark = pytest.mark.django_db


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
    first = client.get("/exceptions/lost/")
    shown = [row.order.pk for row in first.context["rows"]]
    assert shown == [row.pk for row in rows[::-1]][: queue.PAGE_SIZE]
    more = client.get(f"/exceptions/lost/?after={first.context['page'].next}")
    shown += [row.order.pk for row in more.context["rows"]]
    assert shown == [row.pk for row in rows[::-1]]


def test_queue_opens_first_group_with_entries(client: Client, coordinator: User) -> None:
    assert "All clear" in client.get("/exceptions/").content.decode()
    create_order(1, "redraw_available")
    page = client.get("/exceptions/").content.decode()
    assert "Maria1 Testperson" in page and "3 d over" in page
    assert "Nothing here" in client.get("/exceptions/lost/").content.decode()


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
    assert "North laboratory" in client.get("/exceptions/stuck/").content.decode()
    assert "Needs your decision" in client.get("/exceptions/unknown/").content.decode()


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
    tile = page[page.index('href="/exceptions/"', page.index('id="tiles"')) :][:400]
    assert ">0<" in tile, tile


def test_queue_requires_permission(client: Client) -> None:
    row = create_order(1)
    for role in ("viewer", "auditor"):
        client.force_login(staff(role))
        for path in ("", "lost/", f"lost/{row.pk}/"):
            assert client.get(f"/exceptions/{path}").status_code == 403
        assert send_outcome(client, row, "spoke").status_code == 403
    client.force_login(staff("front desk"))
    page = client.get("/exceptions/").content.decode()
    assert "Maria1" in page and "Clinical urgency" not in page
    assert client.get("/exceptions/critical/").status_code == 404
    assert client.get("/exceptions/nonsense/").status_code == 404
    assert client.get(f"/exceptions/lost/{uid('order', 99)}/").status_code == 404
    client.logout()
    assert client.get("/exceptions/").status_code == 302


def test_views_and_changes_are_recorded(client: Client, coordinator: User) -> None:
    row = create_order(1)
    client.get("/exceptions/lost/")
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
    few = count_queries("/exceptions/lost/"), count_queries(f"/exceptions/lost/{row.pk}/")
    for n in range(1, 12):
        send_outcome(client, create_order(n), "spoke")
        create_order(100 + n)
    many = count_queries("/exceptions/lost/"), count_queries(f"/exceptions/lost/{row.pk}/")
    assert many == few
    assert few[0] <= 13 and few[1] <= 26, few


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
