"""A demo begins with the results of yesterday and today; what is older was read and told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from orders.models import Review
from orders.reviewing.criticals import open_criticals
from orders.reviewing.models import CriticalCall
from tests.api.rows import staff, uid
from tests.reviewing.rows import came, ordered


@pytest.mark.django_db(transaction=True)
def test_old_results_were_signed_and_old_critical_ones_told() -> None:
    now = timezone.now()
    old, new = now - timedelta(days=5), now
    came(ordered(1, last_event_at=old).pk, ("Sodium", "4.1", "normal"))
    came(ordered(2, last_event_at=new).pk, ("Sodium", "4.1", "normal"))
    came(ordered(3, last_event_at=old).pk, ("Potassium", "6.9", "critical"))
    came(ordered(4, last_event_at=new).pk, ("Potassium", "6.9", "critical"))
    staff("clinician", "clinician")
    call_command("demo_past")
    waiting = Review.objects.in_bulk()
    assert [waiting[uid("order", n)].in_queue for n in (1, 2, 3, 4)] == [False, True, False, True]
    assert [one.pk for one in open_criticals()] == [uid("order", 4)]
    assert CriticalCall.objects.get().order_id == uid("order", 3)
