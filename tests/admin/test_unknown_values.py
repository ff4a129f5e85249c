"""A value that no release knows gets a bucket and a label, and the decision can be withdrawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.core import service_client, vocabulary
from backoffice.core.models import Change, UnknownValue
from backoffice.core.vocabulary import decisions
from backoffice.sync.runs import request_run, sync_when_due
from orders import decided_statuses
from orders import sync as orders_sync
from orders.exceptions import queue
from orders.models import Order, OrderActivity
from orders.today import counts
from tests.api.rows import TEAM, envelope, order, staff, uid
from tests.outbox.harness import OutboxHarness
from tests.sandboxes import Sandbox, running
from tests.today.test_counting import counts_are_exact
from tests.webhooks.rows import put
from webhooks import apply_events

pytestmark = pytest.mark.django_db

NEW_STATUS = "beamed_up"


@pytest.fixture(autouse=True)
def no_decisions(db: None) -> Iterator[None]:
    """Start without decisions in memory, and leave none to the next test."""
    decisions.reload()
    yield
    UnknownValue.objects.update(decision=0)
    decisions.reload()


@pytest.fixture
def lab_admin(client: Client) -> User:
    user = staff("lab admin")
    client.force_login(user)
    return user


def create_unknown_value(
    value: str = NEW_STATUS, words: str = "order.low_level_status", **more: Any
) -> UnknownValue:
    return UnknownValue.objects.create(vocabulary=words, value=value, sightings=2, **more)


def decide(client: Client, row: UnknownValue, bucket: str, label: str = "", **more: Any) -> Any:
    address = reverse("system:unknown-value", args=[row.pk])
    seen = UnknownValue.objects.get(pk=row.pk).decision
    return client.post(address, {"bucket": bucket, "label": label, "seen": seen, **more})


def withdraw(client: Client, row: UnknownValue) -> Any:
    return decide(client, row, "", take_back="1")


# With the sandbox as the service


@pytest.fixture(scope="module")
def own_sandbox() -> Iterator[Sandbox]:
    with running(users=6, orders=24, seed=9) as sandbox:
        yield sandbox


@pytest.fixture
def harness(own_sandbox: Sandbox, settings: Settings) -> Iterator[OutboxHarness]:
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = own_sandbox.url
    service_client.service.cache_clear()
    yield OutboxHarness(own_sandbox)
    service_client.service.cache_clear()


def set_unknown_status(sandbox: Sandbox, position: int) -> UUID:
    """Change the latest step of an order to an unknown status."""
    found = sandbox.query(
        "UPDATE sandbox_order SET moving_part ="
        " replace(moving_part, '.' || low_level_status || '\"', '.' || %s || '\"')"
        " WHERE id = (SELECT id FROM sandbox_order WHERE team_id = %s"
        "  ORDER BY seq OFFSET %s LIMIT 1) RETURNING id",
        [NEW_STATUS, TEAM, position],
    )
    return UUID(str(found[0][0]))


def badge(client: Client, key: UUID) -> str:
    """Return how the list shows the status of an order."""
    page = client.get(reverse("orders:list"), {"order_ids": str(key)}).content.decode()
    found = re.search(
        rf'<span class="st[^"]*" data-st="([\w-]+)" title="{NEW_STATUS}">.*?</svg>(.*?)<', page
    )
    assert found, "no badge"
    return f"{found[1]}: {found[2]}"


def in_bucket(client: Client, bucket: str) -> set[str]:
    page = client.get(reverse("orders:list"), {"bucket": bucket, "size": "100"}).content.decode()
    return set(re.findall(r"/orders/([0-9a-f-]{36})/", page))


@pytest.mark.django_db(transaction=True)
def test_unknown_status_gets_and_loses_a_decision(harness: OutboxHarness) -> None:
    first = set_unknown_status(harness.sandbox, 3)
    harness.sync_all()
    client = harness.client("administrator")
    row = UnknownValue.objects.get(vocabulary="order.low_level_status", value=NEW_STATUS)
    assert badge(client, first) == f"unknown: {NEW_STATUS}"
    assert str(first) in in_bucket(client, "unknown")
    page = client.get(reverse("system:unknown")).content.decode()
    assert reverse("orders:detail", args=[row.sample_key]) in page

    activity_count = OrderActivity.objects.count()
    before = counts.order_counts().by_bucket()
    assert decide(client, row, "at-lab", "Beamed up").status_code == 302
    assert decided_statuses.apply_decisions() == 1
    assert badge(client, first) == "at-lab: Beamed up"
    assert str(first) in in_bucket(client, "at-lab") - in_bucket(client, "unknown")
    after = counts.order_counts().by_bucket()
    assert after["at-lab"] == before.get("at-lab", 0) + 1 and after.get("unknown", 0) == 0
    assert counts_are_exact() and counts.repair() == 0
    today = client.get(reverse("today:page")).content.decode()
    assert "Unrecognized" not in today
    assert OrderActivity.objects.count() == activity_count, "a decision is no activity of the order"
    filtered = client.get(reverse("orders:list"), {"status": NEW_STATUS}).content.decode()
    assert f'value="{NEW_STATUS}" checked><span>Beamed up' in filtered and str(first) in filtered

    second = Order.objects.exclude(pk=first).filter(last_event_id__gt=0).earliest("updated_at")
    body = json.loads(second.record)
    at = (second.updated_at + timedelta(minutes=1)).isoformat()
    step = {**body["events"][-1], "id": second.last_event_id + 10**9, "created_at": at}
    step["status"] = re.sub(r"[^.]+$", NEW_STATUS, step["status"])
    body |= {"events": [*body["events"], step], "last_event": step, "updated_at": at}
    put("labtest.order.updated", body)
    assert apply_events.drain() == 1
    assert Order.objects.get(pk=second.pk).bucket == "at-lab"
    assert badge(client, second.pk) == "at-lab: Beamed up"
    request_run(orders_sync.ALL_ORDERS)
    sync_when_due(orders_sync.ALL_ORDERS, seconds=60)
    assert Order.objects.get(pk=first).bucket == "at-lab" and counts_are_exact()

    assert withdraw(client, row).status_code == 302
    decided_statuses.apply_decisions()
    assert badge(client, first) == f"unknown: {NEW_STATUS}"
    assert not Order.objects.filter(low_level_status=NEW_STATUS).exclude(bucket="unknown").exists()
    assert counts_are_exact() and counts.repair() == 0


# Decisions


def test_decision_is_stored_numbered_and_recorded(client: Client, lab_admin: User) -> None:
    row = create_unknown_value()
    decide(client, row, "closed", "Beamed up")
    row.refresh_from_db()
    assert (row.bucket, row.label, row.decision, row.decided_by) == (
        "closed",
        "Beamed up",
        1,
        lab_admin,
    )
    entry = AuditEntry.objects.get(object_type="unknown value")
    assert entry.object_ids == [f"order.low_level_status: {NEW_STATUS}"]
    assert entry.before == {"bucket": "", "words": ""}
    assert entry.after == {"bucket": "closed", "words": "Beamed up"}
    decide(client, row, "closed", "Beamed up")
    assert AuditEntry.objects.filter(object_type="unknown value").count() == 1
    other = create_unknown_value("other")
    decide(client, other, "at-lab", "Other")
    assert UnknownValue.objects.get(pk=other.pk).decision == 2
    withdraw(client, row)
    row.refresh_from_db()
    assert (row.bucket, row.label, row.decision) == ("", "", 3)
    assert vocabulary.term("order.low_level_status", NEW_STATUS).family == "closed", (
        "the vocabulary is not reloaded yet"
    )
    client.get(reverse("system:unknown"))
    assert vocabulary.term("order.low_level_status", NEW_STATUS).family == "unknown"


def test_concurrent_decision_is_a_conflict(client: Client, lab_admin: User) -> None:
    row = create_unknown_value()
    decide(client, row, "closed", "First")
    answer = decide(client, row, "at-lab", "Second", seen="0")
    assert answer.status_code == 422 and "Someone else just changed this" in answer.content.decode()
    assert 'value="Second"' in answer.content.decode(), "the typed text is kept"
    assert UnknownValue.objects.get(pk=row.pk).label == "First"


@pytest.mark.parametrize(
    ("sent", "words"),
    [({"bucket": "nowhere"}, "Select a valid choice"), ({"bucket": ""}, "required"),
     ({"bucket": "unknown"}, "Select a valid choice"), ({"label": ""}, "required"),
     ({"label": "x" * 81}, "at most 80"), ({"label": "a\x00b"}, "Null")],
)  # fmt: skip
def test_invalid_decision_is_refused(
    client: Client, lab_admin: User, sent: dict[str, str], words: str
) -> None:
    row = create_unknown_value()
    answer = decide(client, row, **{"bucket": "closed", "label": "Beamed up", **sent})
    assert answer.status_code == 422 and words in answer.content.decode()
    row.refresh_from_db()
    assert (row.bucket, row.decision) == ("", 0)
    assert not AuditEntry.objects.filter(object_type="unknown value").exists()


@pytest.mark.parametrize("role", ["lab coordinator", "service account"])
def test_decision_requires_permission(client: Client, role: str) -> None:
    client.force_login(staff(role))
    row = create_unknown_value()
    page = client.get(reverse("system:unknown-value", args=[row.pk])).content.decode()
    assert "Only lab admins and administrators" in page and 'name="bucket"' not in page
    assert decide(client, row, "closed", "Mine").status_code == 422
    assert UnknownValue.objects.get(pk=row.pk).decision == 0


def test_some_values_cannot_be_decided(client: Client, lab_admin: User) -> None:
    for row in (
        create_unknown_value("labtest.beam.done", "event_type"),
        create_unknown_value("lost"),
    ):
        assert decide(client, row, "closed", "Mine").status_code == 422
        assert UnknownValue.objects.get(pk=row.pk).decision == 0


def test_value_of_other_vocabulary_gets_label_and_color(client: Client, lab_admin: User) -> None:
    row = create_unknown_value("hovering", "appointment.status", sample_key="x")
    decide(client, row, "plain", "Hovering about")
    client.get(reverse("system:unknown"))
    term = vocabulary.term("appointment.status", "hovering")
    assert (term.label, term.family, term.glyph) == ("Hovering about", "plain", "")
    assert ("hovering", "Hovering about") in vocabulary.choices("appointment.status")
    assert vocabulary.term("appointment.event_status", "hovering").family == "unknown"
    assert decided_statuses.apply_decisions() == 0


def test_decision_adds_no_query_to_pages(client: Client, lab_admin: User) -> None:
    order(1, low_level_status=NEW_STATUS, bucket="unknown").save()
    create_unknown_value()
    counts = []
    for _ in range(3):
        client.get(reverse("orders:list"))
    for turn in ("before", "heard of", "known"):
        if turn == "heard of":
            create_decision("at-lab")  # By another process.
            client.get(reverse("orders:list"))
        with CaptureQueriesContext(connection) as queries:
            page = client.get(reverse("orders:list")).content.decode()
        counts.append(len(queries))
    assert counts[0] == counts[2] == counts[1] and "Beamed up" in page


# Updates of orders


def create_order(n: int, status: str = NEW_STATUS, **values: Any) -> Order:
    now = timezone.now()
    row = order(n, low_level_status=status, bucket="unknown", method="testkit",
                last_event_at=now - timedelta(days=2), **values)  # fmt: skip
    row.save()
    return row


def create_decision(bucket: str, number: int = 1, **values: Any) -> UnknownValue:
    now = timezone.now()
    values = {"decision": number, "decided_at": now, "label": "Beamed up", **values}
    row, _ = UnknownValue.objects.update_or_create(
        vocabulary="order.low_level_status", value=NEW_STATUS,
        defaults={"bucket": bucket, "spread_at": None, "moved": 0, **values},
    )  # fmt: skip
    return row


def test_only_orders_with_the_status_are_updated_once() -> None:
    for n in range(8):
        create_order(n)
    other = create_order(100, "teleported")
    row = create_decision("on-the-way")
    Change.objects.all().delete()
    assert decided_statuses.apply_decisions(batch_size=3) == 8
    row.refresh_from_db()
    assert row.moved == 8 and row.spread_at is not None
    assert Order.objects.filter(bucket="on-the-way").count() == 8 and counts_are_exact()
    assert Order.objects.get(pk=other.pk).bucket == "unknown"
    assert sum(one.rows for one in Change.objects.filter(topic="orders_order")) == 8
    change_count = Change.objects.count()
    assert decided_statuses.apply_decisions() == 0, "the last pass was a moment ago"
    later = timezone.now() + decided_statuses.RECHECK_INTERVAL
    assert decided_statuses.apply_decisions(later) == 0 and Change.objects.count() == change_count


def test_order_stored_by_outdated_worker_is_updated() -> None:
    create_order(1)
    row = create_decision("at-lab")
    decided_statuses.apply_decisions()
    late = create_order(2)
    assert decided_statuses.apply_decisions(timezone.now() + decided_statuses.RECHECK_INTERVAL) == 1
    assert Order.objects.get(pk=late.pk).bucket == "at-lab"
    assert decided_statuses.apply_decisions(timezone.now() + decided_statuses.RECHECK_PERIOD) == 0
    row.refresh_from_db()
    create_order(3)
    assert (
        decided_statuses.apply_decisions(timezone.now() + 2 * decided_statuses.RECHECK_PERIOD) == 0
    ), "the decision is no longer rechecked"


DECIDE_WHILE_MOVING = """
CREATE FUNCTION decide_while_moving() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 UPDATE core_unknownvalue SET bucket = 'closed', decision = 2, spread_at = NULL, moved = 0
 WHERE decision = 1;
 RETURN NULL;
END $$;
CREATE TRIGGER decide_while_moving AFTER UPDATE OF bucket ON orders_order
 EXECUTE FUNCTION decide_while_moving();
"""


def test_newer_decision_overrides_running_pass() -> None:
    create_order(1)
    create_decision("at-lab")
    with connection.cursor() as cursor:
        cursor.execute(DECIDE_WHILE_MOVING)
    decided_statuses.apply_decisions()
    assert UnknownValue.objects.get().spread_at is None
    assert decided_statuses.apply_decisions() == 1
    assert Order.objects.get().bucket == "closed" and counts_are_exact()


def test_decision_about_known_value_changes_nothing() -> None:
    row = order(1, low_level_status="lost", bucket="needs-action")
    row.save()
    UnknownValue.objects.create(
        vocabulary="order.low_level_status", value="lost", bucket="closed", decision=1,
        decided_at=timezone.now(),
    )  # fmt: skip
    decisions.reload()
    assert decided_statuses.apply_decisions() == 0
    assert vocabulary.term("order.low_level_status", "lost").label == "Lost"


def test_needs_action_order_is_in_exceptions_and_counted() -> None:
    row = create_order(1)
    create_decision("needs-action")
    decided_statuses.apply_decisions()
    row.refresh_from_db()
    now = timezone.now()
    assert row.quiet_at == row.last_event_at, "it is due immediately"
    assert queue.group_of(row, now) == queue.OTHER
    assert [one.pk for one in queue.group_page(queue.OTHER, now).rows] == [row.pk]
    counts = queue.group_counts(now, staff("lab coordinator"))
    assert (counts[queue.OTHER].value, counts[queue.UNKNOWN].value) == (1, 0)
    create_decision("closed", 2)
    decided_statuses.apply_decisions()
    row.refresh_from_db()
    assert row.quiet_at is None and queue.group_of(row, now) == ""


def test_exception_group_uses_its_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        # On an empty table every index costs the same.
        cursor.execute("SET LOCAL enable_sort = off")
        sql, values = (
            queue.group_orders(queue.OTHER, timezone.now())
            .order_by("quiet_at")
            .query.sql_with_params()
        )
        cursor.execute(f"EXPLAIN {sql}", values)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "exception_other" in plan


def test_decided_bucket_is_used_for_new_orders() -> None:
    create_decision("result-in")
    decisions.refresh_if_stale()
    decisions.reload()
    record = {"id": str(uid("order", 1)), **envelope()}
    assert record["id"]
    assert vocabulary.order_bucket(NEW_STATUS, "testkit", []) == "result-in"
    term = vocabulary.order_term(NEW_STATUS, "testkit", [])
    assert (term.label, term.turn) == ("Beamed up", "us")
    assert not vocabulary.is_known("order.low_level_status", NEW_STATUS)
