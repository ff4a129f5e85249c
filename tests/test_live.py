"""Changes for open pages: no committed change is missed, and others are not counted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, transaction
from django.test import Client

from backoffice.audit.models import AuditEntry
from backoffice.core import live_changes
from backoffice.core.models import Change
from backoffice.pages import live
from backoffice.pages.live import WatchedRecords, about, changes_since
from labs.reports.models import Report
from orders.models import Order
from tests.api.rows import patient, staff, uid
from tests.databases import connect_separately

ORDERS = about("orders")


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """Another connection to the same database."""
    with connect_separately() as opened:
        yield opened


def cursor_now() -> str:
    return live.current_snapshot(None)


def insert_change(other: psycopg.Connection[Any], topic: str, *subjects: UUID) -> None:
    other.execute(
        "INSERT INTO core_change (xact, topic, rows, subjects)"
        " VALUES (pg_current_xact_id()::text::bigint, %s, 1, %s)",
        [topic, list(subjects)],
    )


@pytest.mark.django_db(transaction=True)
def test_late_commit_is_not_missed(other: psycopg.Connection[Any]) -> None:
    insert_change(other, "orders_order")
    first = cursor_now()
    with transaction.atomic():
        live_changes.record_change("orders_order", [uuid.uuid4()])
    count, second = changes_since(first, ORDERS)
    assert count == 1
    # This change began before both cursors and was committed after them.
    other.commit()
    assert changes_since(second, ORDERS)[0] == 1
    assert changes_since(first, ORDERS)[0] == 2
    assert changes_since(cursor_now(), ORDERS)[0] == 0


@pytest.mark.django_db(transaction=True)
def test_rolled_back_change_is_not_counted(other: psycopg.Connection[Any]) -> None:
    since = cursor_now()
    insert_change(other, "orders_order")
    other.rollback()
    assert changes_since(since, ORDERS)[0] == 0


@pytest.mark.django_db(transaction=True)
def test_only_changes_of_page_subjects_are_counted(other: psycopg.Connection[Any]) -> None:
    own, foreign = uuid.uuid4(), uuid.uuid4()
    since = cursor_now()
    insert_change(other, "orders_order", own)
    insert_change(other, "orders_appointment", foreign)
    other.commit()
    assert changes_since(since, about(f"order:{own}"))[0] == 1
    assert changes_since(since, about(f"order:{uuid.uuid4()}"))[0] == 0
    assert changes_since(since, about("appointments"))[0] == 1
    assert changes_since(since, about(f"orders appointments order:{foreign}"))[0] == 2
    # There are too many subjects to name, so the page of a record must count the change.
    other.execute(
        "INSERT INTO core_change (xact, topic, rows)"
        " VALUES (pg_current_xact_id()::text::bigint, 'orders_order', 900)"
    )
    other.commit()
    assert changes_since(since, ORDERS)[0] == 901
    assert changes_since(since, about(f"patient:{uuid.uuid4()}"))[0] == 1


@pytest.mark.parametrize(
    "text", ["people", "order:7", "orders:", "orders;drop", "user:" + "1" * 32]
)
def test_invalid_subjects_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        about(text)
    assert about("") == WatchedRecords((), ())


@pytest.mark.django_db(transaction=True)
def test_response_contains_only_the_count(client: Client) -> None:
    client.force_login(staff("viewer"))
    since = cursor_now()
    query = {"since": since, "about": "orders"}
    answer = client.get("/live/", query)
    assert (answer.status_code, answer.content) == (204, b"")
    live_changes.record_change("orders_order", [uuid.uuid4()])
    answer = client.get("/live/", query)
    assert answer.json() == {"count": 1}
    assert client.get("/live/", {**query, "since": answer["X-Cursor"]}).status_code == 204
    for invalid in (
        {**query, "since": "1"},
        {**query, "since": "x" * 40},
        # PostgreSQL never writes these, and fails on a statement that contains one.
        *({**query, "since": one} for one in ("5:1:", "0:0:", "1:5:9", "1:9:7,6", f"{'9' * 20}:")),
        {**query, "about": "users"},
    ):
        assert client.get("/live/", invalid).status_code == 400
    assert AuditEntry.objects.count() == 0


@pytest.mark.django_db
def test_anonymous_poll_gets_401(client: Client) -> None:
    answer = client.get(
        "/live/", {"since": "1:1:", "about": "orders"}, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 401


@pytest.mark.django_db(transaction=True)
def test_poll_needs_three_queries(client: Client, django_assert_num_queries: Any) -> None:
    """The queries are session, user and changes."""
    client.force_login(staff("clinician"))
    since = cursor_now()
    with django_assert_num_queries(3):
        client.get("/live/", {"since": since, "about": "orders"})


@pytest.mark.django_db(transaction=True)
def test_mirror_records_subjects_of_change() -> None:
    from backoffice.mirror.applying import apply_batch
    from orders.sync.orders import ORDERS as TABLE
    from tests.mirror_records import order

    with transaction.atomic():
        apply_batch(TABLE, [order()])
    row = Order.objects.get()
    change = Change.objects.get(topic="orders_order")
    assert change.rows == 1
    assert set(change.subjects or ()) == {row.pk, row.user_id} - {None}
    with transaction.atomic():
        apply_batch(TABLE, [order()])
    assert Change.objects.filter(topic="orders_order").count() == 1


@pytest.mark.django_db
def test_old_changes_are_pruned() -> None:
    live_changes.record_change("note", [uuid.uuid4()])
    live_changes.record_change("note", [uuid.uuid4()])
    Change.objects.filter(pk=Change.objects.order_by("pk")[0].pk).update(at="2020-01-01T00:00Z")
    live_changes.prune()
    assert Change.objects.count() == 1


@pytest.mark.django_db
def test_topics_of_lists_are_existing_tables() -> None:
    tables = connection.introspection.table_names()
    named = {name for names in live.LISTS.values() for name in names if "_" in name}
    assert named <= set(tables)


@pytest.mark.django_db(transaction=True)
def test_changes_of_upload_are_counted() -> None:
    patient(1).save()
    values = {"id": uuid.uuid4(), "user_id": uid("patient", 1), "form_id": uuid.uuid4()}
    cursors = [cursor_now()]
    Report.objects.create(**values)
    cursors.append(cursor_now())
    Report.objects.filter(pk=values["id"]).update(state="refused")
    for shown in (about("reports"), about(f"report:{values['id']}")):
        assert [changes_since(cursor, shown)[0] for cursor in cursors] == [2, 1]
    assert changes_since(cursors[0], about(f"report:{uuid.uuid4()}"))[0] == 0


@pytest.mark.django_db(transaction=True)
def test_review_queue_counts_critical_calls() -> None:
    before = cursor_now()
    live_changes.record_change("critical call", [uuid.uuid4()])
    assert changes_since(before, about("results"))[0] == 1
