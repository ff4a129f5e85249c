"""A command signs results from before this back office was in use."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from backoffice.audit.models import AuditEntry
from orders.models import Review, Signature
from orders.models.review import CriticalCall
from orders.results import open_criticals
from orders.results.queue import queue_counts
from tests.api.rows import NOW, staff, uid
from tests.reviewing.rows import make_order, receive_result

OLD = {"last_event_at": NOW - timedelta(days=30)}
DAY = f"{NOW - timedelta(days=10):%Y-%m-%d}"


@pytest.mark.django_db(transaction=True)
def test_reviewed_elsewhere_signs_only_old_normal_results() -> None:
    receive_result(make_order(1, **OLD).pk, ("Sodium", "4.1", "normal"))
    receive_result(make_order(2, last_event_at=NOW).pk, ("Sodium", "4.1", "normal"))
    receive_result(make_order(3, **OLD).pk, ("Potassium", "6.9", "critical"))
    receive_result(make_order(4, **OLD).pk, ("Sodium", "4.1", "normal"), status="partial")
    staff("clinician", "anna")
    call_command("reviewed_elsewhere", before=DAY, by="anna")
    assert [one.order_id for one in Signature.objects.all()] == [uid("order", 1)]
    assert not Review.objects.get(pk=uid("order", 1)).in_queue and queue_counts() == (3, 0)
    assert AuditEntry.objects.get(object_type="sign result").object_ids == [str(uid("order", 1))]
    call_command("reviewed_elsewhere", before=DAY, by="anna")
    assert Signature.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_reviewed_elsewhere_signs_criticals_only_if_called_about() -> None:
    receive_result(make_order(1, **OLD).pk, ("Potassium", "6.9", "critical"))
    receive_result(make_order(2, last_event_at=NOW).pk, ("Potassium", "7.2", "critical"))
    staff("clinician", "anna")
    call_command("reviewed_elsewhere", before=DAY, by="anna", critical=True)
    assert [one.pk for one in open_criticals()] == [uid("order", 2)], "only the new one is open"
    old = Review.objects.get(pk=uid("order", 1))
    assert not old.in_queue and old.is_acknowledged and old.is_called
    call = CriticalCall.objects.get()
    assert call.source and [value["text"] for value in call.values] == ["6.9"]
    kinds = AuditEntry.objects.values_list("object_type", flat=True)
    assert set(kinds) == {"sign result", "acknowledge critical", "critical call"}


@pytest.mark.django_db(transaction=True)
def test_reviewed_elsewhere_counts_skipped_results_by_reason() -> None:
    receive_result(make_order(1, **OLD).pk, ("Sodium", "4.1", "normal"))
    receive_result(
        make_order(2, **OLD).pk, ("Sodium", "4.1", "normal"), ("Color", "ominous", "unknown")
    )
    receive_result(make_order(3, **OLD).pk, ("Color", "odd", "unknown"), interpretation="unknown")
    receive_result(make_order(4, **OLD).pk, ("Sodium", "4.1", "normal"), interpretation=None)
    receive_result(make_order(5, **OLD).pk, ("Sodium", "4.1", "normal"), status="partial")
    receive_result(make_order(6, **OLD).pk, ("Sodium", "4.1", "normal"), status="preliminary")
    receive_result(make_order(7, **OLD).pk, ("Potassium", "6.9", "critical"))
    receive_result(make_order(8, **OLD).pk, ("Sodium", "4.1", "normal"))
    Review.objects.filter(pk=uid("order", 8)).update(identity="different")
    receive_result(make_order(9, last_event_at=NOW).pk, ("Color", "ominous", "unknown"))
    staff("clinician", "anna")
    words = StringIO()
    call_command("reviewed_elsewhere", before=DAY, by="anna", stdout=words)
    assert [one.order_id for one in Signature.objects.all()] == [uid("order", 1)]
    assert words.getvalue().splitlines() == [
        "1 results signed",
        "3 results left for review: they have values that are not interpreted",
        "1 results left for review: they are critical (see --critical)",
        "1 results left for review: they are partial",
        "1 results left for review: they have an unknown status",
        "1 results left for review: they name somebody else",
    ]


@pytest.mark.django_db
def test_reviewed_elsewhere_needs_a_user_who_may_sign() -> None:
    staff("front desk", "desk")
    for options in ({"by": "desk"}, {"by": "nobody"}, {"before": "soon"}):
        with pytest.raises(CommandError):
            call_command("reviewed_elsewhere", **{"before": DAY, "by": "desk", **options})
