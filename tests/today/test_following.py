"""Counts and digest follow a sync of the sandbox: 500 random changes, some received by webhook
first, a sync without changes that writes nothing, and two workers at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.core import service_client
from backoffice.pages import live
from backoffice.sync.runs import request_run, sync_when_due
from orders import sync as orders_sync
from orders.models import Order, OrderActivity, OrderCount
from orders.today import counts, digest
from tests.api.rows import staff
from tests.outbox.harness import OutboxHarness
from tests.sandboxes import Sandbox, running
from tests.today.test_counting import counts_are_exact

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def followed() -> Iterator[Sandbox]:
    with running(users=60, orders=600, seed=5) as sandbox:
        yield sandbox


@pytest.fixture
def harness(followed: Sandbox, settings: Settings) -> Iterator[OutboxHarness]:
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = followed.url
    service_client.service.cache_clear()
    yield OutboxHarness(followed)
    service_client.service.cache_clear()


def state() -> dict[object, tuple[str, str]]:
    rows = Order.objects.values_list("pk", "bucket", "low_level_status")
    return {key: (bucket, status) for key, bucket, status in rows}


def test_counts_and_digest_follow_five_hundred_changes(harness: OutboxHarness) -> None:
    sync_when_due(orders_sync.ALL_ORDERS, seconds=60)
    assert sum(counts.order_counts().by_state.values()) == 600 and counts_are_exact()
    rows, news = OrderCount.objects.count(), OrderActivity.objects.count()
    old = Order.objects.filter(last_event_at__lt=timezone.now() - digest.FIRST_PERIOD * 4)
    assert not OrderActivity.objects.filter(order_id__in=old.values("pk")).exists()

    request_run(orders_sync.ALL_ORDERS)
    sync_when_due(orders_sync.ALL_ORDERS, seconds=60)
    assert (OrderCount.objects.count(), OrderActivity.objects.count()) == (rows, news)

    one = staff("clinician")
    digest.mark_all_seen(one, live.current_snapshot(User.objects.get(pk=one.pk)))
    before = state()
    changed: set[str] = set()
    for seed in range(5):
        found = harness.sandbox.control("change", {"orders": 100, "seed": seed})
        changed.update(found["order_ids"])
        request_run(orders_sync.ALL_ORDERS)
        sync_when_due(orders_sync.ALL_ORDERS, seconds=60)
        assert counts_are_exact()
        counts.compact_counts()
        assert counts_are_exact()
    assert len(changed) > 100
    after = state()
    moved = {key for key in after if after[key] != before.get(key)}
    told = set(OrderActivity.objects.filter(pk__gt=_last(news)).values_list("order_id", flat=True))
    assert moved and moved <= told
    assert {str(key) for key in told} <= changed
    assert counts.repair() == 0
    groups = digest.build_digest(one, sees_results=True)
    assert groups.total and not groups.first


def _last(number: int) -> int:
    return max(
        OrderActivity.objects.order_by("pk").values_list("pk", flat=True)[:number], default=0
    )
