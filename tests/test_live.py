"""News of open pages: nothing that was committed is missed, nothing foreign counts."""

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
from backoffice.core import changes
from backoffice.core.models import Change
from backoffice.pages import live
from backoffice.pages.live import About, about, changes_since
from labs.reports.models import Report
from orders.models import Order
from tests.api.rows import patient, staff, uid

ORDERS = about("orders")


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's connection to the same database."""
    params = connection.get_connection_params()
    params = {
        key: params[key] for key in ("host", "port", "user", "password", "dbname") if key in params
    }
    with psycopg.connect(**params) as made:
        yield made


def cursor_now() -> str:
    return live.now_of(None)


def write(other: psycopg.Connection[Any], topic: str, *subjects: UUID) -> None:
    other.execute(
        "INSERT INTO core_change (xact, topic, rows, subjects)"
        " VALUES (pg_current_xact_id()::text::bigint, %s, 1, %s)",
        [topic, list(subjects)],
    )


@pytest.mark.django_db(transaction=True)
def test_what_commits_late_is_not_missed(other: psycopg.Connection[Any]) -> None:
    write(other, "orders_order")
    first = cursor_now()
    with transaction.atomic():
        changes.record_change("orders_order", [uuid.uuid4()])
    count, second = changes_since(first, ORDERS)
    assert count == 1
    # Begun before both cursors, committed after them.
    other.commit()
    assert changes_since(second, ORDERS)[0] == 1
    assert changes_since(first, ORDERS)[0] == 2
    assert changes_since(cursor_now(), ORDERS)[0] == 0


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_is_no_news(other: psycopg.Connection[Any]) -> None:
    since = cursor_now()
    write(other, "orders_order")
    other.rollback()
    assert changes_since(since, ORDERS)[0] == 0


@pytest.mark.django_db(transaction=True)
def test_only_what_the_page_shows_counts(other: psycopg.Connection[Any]) -> None:
    mine, foreign = uuid.uuid4(), uuid.uuid4()
    since = cursor_now()
    write(other, "orders_order", mine)
    write(other, "orders_appointment", foreign)
    other.commit()
    assert changes_since(since, about(f"order:{mine}"))[0] == 1
    assert changes_since(since, about(f"order:{uuid.uuid4()}"))[0] == 0
    assert changes_since(since, about("appointments"))[0] == 1
    assert changes_since(since, about(f"orders appointments order:{foreign}"))[0] == 2
    # Too many to name: a record's page cannot know that it is not meant.
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
def test_a_page_cannot_ask_about_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        about(text)
    assert about("") == About((), ())


@pytest.mark.django_db(transaction=True)
def test_the_answer_says_how_many_and_nothing_else(client: Client) -> None:
    client.force_login(staff("viewer"))
    since = cursor_now()
    asked = {"since": since, "about": "orders"}
    answer = client.get("/live/", asked)
    assert (answer.status_code, answer.content) == (204, b"")
    changes.record_change("orders_order", [uuid.uuid4()])
    answer = client.get("/live/", asked)
    assert answer.json() == {"count": 1}
    assert client.get("/live/", {**asked, "since": answer["X-Cursor"]}).status_code == 204
    for wrong in (
        {**asked, "since": "1"},
        {**asked, "since": "x" * 40},
        # PostgreSQL never writes these, and breaks off a statement that holds one.
        *({**asked, "since": one} for one in ("5:1:", "0:0:", "1:5:9", "1:9:7,6", f"{'9' * 20}:")),
        {**asked, "about": "users"},
    ):
        assert client.get("/live/", wrong).status_code == 400
    assert AuditEntry.objects.count() == 0


@pytest.mark.django_db
def test_strangers_are_told_to_log_in_without_a_page(client: Client) -> None:
    answer = client.get(
        "/live/", {"since": "1:1:", "about": "orders"}, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 401


@pytest.mark.django_db(transaction=True)
def test_one_poll_costs_three_statements(client: Client, django_assert_num_queries: Any) -> None:
    """Session, person, and one look at the changes."""
    client.force_login(staff("clinician"))
    since = cursor_now()
    with django_assert_num_queries(3):
        client.get("/live/", {"since": since, "about": "orders"})


@pytest.mark.django_db(transaction=True)
def test_the_mirror_tells_whom_a_change_is_about() -> None:
    from backoffice.mirror.applying import apply_batch
    from orders.sync.orders import ORDERS as TABLE
    from tests.test_mirror import order

    with transaction.atomic():
        apply_batch(TABLE, [order()])
    row = Order.objects.get()
    told = Change.objects.get(topic="orders_order")
    assert told.rows == 1
    assert set(told.subjects or ()) == {row.pk, row.user_id} - {None}
    with transaction.atomic():
        apply_batch(TABLE, [order()])
    assert Change.objects.filter(topic="orders_order").count() == 1


@pytest.mark.django_db
def test_old_news_are_forgotten() -> None:
    changes.record_change("note", [uuid.uuid4()])
    changes.record_change("note", [uuid.uuid4()])
    Change.objects.filter(pk=Change.objects.order_by("pk")[0].pk).update(at="2020-01-01T00:00Z")
    changes.prune()
    assert Change.objects.count() == 1


@pytest.mark.django_db
def test_lists_hear_of_tables_that_are_there() -> None:
    tables = connection.introspection.table_names()
    named = {name for names in live.LISTS.values() for name in names if "_" in name}
    assert named <= set(tables)


@pytest.mark.django_db(transaction=True)
def test_what_becomes_of_an_upload_is_told() -> None:
    patient(1).save()
    known = {"id": uuid.uuid4(), "user_id": uid("patient", 1), "form_id": uuid.uuid4()}
    cursors = [cursor_now()]
    Report.objects.create(**known)
    cursors.append(cursor_now())
    Report.objects.filter(pk=known["id"]).update(state="refused")
    for shown in (about("reports"), about(f"report:{known['id']}")):
        assert [changes_since(cursor, shown)[0] for cursor in cursors] == [2, 1]
    assert changes_since(cursors[0], about(f"report:{uuid.uuid4()}"))[0] == 0


@pytest.mark.django_db(transaction=True)
def test_the_review_queue_hears_of_calls() -> None:
    before = cursor_now()
    changes.record_change("critical call", [uuid.uuid4()])
    assert changes_since(before, about("results"))[0] == 1
