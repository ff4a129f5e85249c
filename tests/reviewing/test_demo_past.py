"""A demo starts with the results of last night and today; older ones are signed and closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from backoffice.sync.models import SyncRun
from orders.models import Handling, Review
from orders.models.review import CriticalCall
from orders.results.critical_calls import open_criticals
from tests.api.rows import staff, uid
from tests.reviewing.rows import make_order, receive_result
from tests.waiting import wait_until

TROUBLE = {"low_level_status": "lost", "bucket": "needs-action"}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def demo_past_thread() -> Iterator[threading.Thread]:
    """Run the command while the first sync is running."""
    staff("clinician", "clinician")

    def run() -> None:
        try:
            call_command("demo_past", last_seconds=0)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield thread
    SyncRun.objects.create(resource="orders", full=True, state=SyncRun.State.DONE)
    thread.join(20)
    assert not thread.is_alive(), "the command must end when the first sync is nearly complete"


def test_demo_past_signs_and_calls_about_old_results(demo_past_thread: threading.Thread) -> None:
    now = timezone.now()
    old, new = now - timedelta(hours=13), now - timedelta(hours=11)
    receive_result(make_order(1, last_event_at=old).pk, ("Sodium", "4.1", "normal"))
    receive_result(make_order(2, last_event_at=new).pk, ("Sodium", "4.1", "normal"))
    receive_result(make_order(3, last_event_at=old).pk, ("Potassium", "6.9", "critical"))
    receive_result(make_order(4, last_event_at=new).pk, ("Potassium", "6.9", "critical"))

    make_order(5, last_event_at=now - timedelta(days=3), **TROUBLE)
    make_order(6, last_event_at=new, **TROUBLE)

    def queue_states() -> list[bool]:
        reviews = Review.objects.in_bulk()
        return [reviews[uid("order", n)].in_queue for n in (1, 2, 3, 4)]

    wait_until(lambda: queue_states() == [False, True, False, True], 60, "the old ones are signed")
    assert demo_past_thread.is_alive(), "more results may arrive"
    assert [one.pk for one in open_criticals()] == [uid("order", 4)]
    assert CriticalCall.objects.get().order_id == uid("order", 3)
    handled = Handling.objects.values_list("pk", flat=True)
    wait_until(lambda: list(handled.all()) == [uid("order", 5)], 60, "old trouble is handled")
    assert Handling.objects.get().reason, "the page shows what was done"
