"""An unacknowledged critical result is escalated once after half an hour.

Everybody who may acknowledge it gets a notification and an email.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.team.emails import send_due
from backoffice.team.models import Notification
from orders.models import CriticalAnnouncement, Order, Review
from orders.results.critical_calls import acknowledge
from orders.results.escalation import escalate_criticals
from orders.tasks import notify_staff
from tests.api.rows import staff
from tests.reviewing.rows import Line, make_order, receive_result, uid
from tests.team.mail_server import MailServer

pytestmark = pytest.mark.django_db

CRITICAL = ("Potassium", "6.9", "critical")


def make_critical_result(n: int = 1, *, minutes: float = 31, days: float = 0) -> Review:
    """Create a critical result received `minutes` ago; the order's last step is `days` ago."""
    now = timezone.now()
    row = make_order(n, last_event_at=now - timedelta(days=days), interpretation="critical")
    receive_result(row.pk, CRITICAL, as_of=now - timedelta(minutes=minutes))
    return Review.objects.get(pk=row.pk)


def make_announcement(*, minutes: float) -> None:
    """Create the announcement of a critical result, received `minutes` ago."""
    received_at = timezone.now() - timedelta(minutes=minutes)
    CriticalAnnouncement.objects.create(
        order_id=uid("order", 1), interpretation="critical", first_heard_at=received_at,
        heard_at=timezone.now(), event_number=1, message_id="msg-1",
    )  # fmt: skip


def notified_people() -> set[str]:
    return set(Notification.objects.values_list("user__username", flat=True))


@pytest.fixture(autouse=True)
def people() -> dict[str, User]:
    roles = {
        "anna": "clinician",
        "bruno": "lab coordinator",
        "carla": "front desk",
        "dora": "viewer",
    }
    return {name: staff(role, name) for name, role in roles.items()}


def test_escalation_notifies_everybody_who_may_acknowledge_once() -> None:
    review = make_critical_result()
    assert escalate_criticals() == 2
    assert notified_people() == {"anna", "bruno"}
    assert set(Notification.objects.values_list("kind", "subject_type", "subject_id")) == {
        ("critical-waits", "result", str(review.pk))
    }
    Notification.objects.update(seen_at=timezone.now())
    assert escalate_criticals() == 0
    notify_staff()
    assert Notification.objects.count() == 2


def test_escalation_waits_half_an_hour() -> None:
    make_critical_result(minutes=29)
    assert escalate_criticals() == 0


@pytest.mark.parametrize("flag", ["normal", "critical"])
def test_later_version_does_not_restart_the_delay(flag: str) -> None:
    """H10: a panel arrives in parts. The delay starts with the first critical version."""
    review = make_critical_result()
    parts: list[Line] = [CRITICAL, ("Sodium", "4.1", flag), ("Chloride", "4.2", "normal")]
    receive_result(review.pk, *parts[:2], status="partial")
    assert Review.objects.get().version == 2
    assert escalate_criticals() == 2
    receive_result(review.pk, *parts)
    assert Review.objects.get().version == 3
    assert escalate_criticals() == 0, "the same critical values are escalated once"


@pytest.mark.parametrize(("minutes", "expected_count"), [(29, 0), (31, 2)])
def test_announcement_starts_the_delay(minutes: int, expected_count: int) -> None:
    make_announcement(minutes=minutes)
    assert escalate_criticals() == expected_count


def test_announced_result_does_not_restart_the_delay() -> None:
    make_announcement(minutes=31)
    assert make_critical_result(minutes=5).critical_since == 1
    assert escalate_criticals() == 2


def test_acknowledged_result_is_not_escalated(people: dict[str, User]) -> None:
    review = make_critical_result()
    acknowledge(review, review.version, people["anna"])
    assert escalate_criticals() == 0


def test_result_critical_again_is_escalated_again(people: dict[str, User]) -> None:
    review = make_critical_result()
    escalate_criticals()
    acknowledge(review, review.version, people["anna"])
    receive_result(review.pk, ("Potassium", "7.4", "critical"))
    assert escalate_criticals() == 0, "its own delay starts now"
    assert escalate_criticals(timezone.now() + timedelta(minutes=31)) == 2


def test_first_sync_escalates_no_old_results() -> None:
    make_critical_result(days=400)
    assert escalate_criticals() == 0


def test_announcement_without_its_order_is_escalated() -> None:
    review = make_critical_result()
    Order.objects.filter(pk=uid("order", 1)).delete()
    assert Review.objects.filter(pk=review.pk).exists()
    assert escalate_criticals() == 2


def test_earlier_notifications_are_found_by_an_index(people: dict[str, User]) -> None:
    """The query runs every few seconds and must not read all notifications."""
    make_critical_result()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO team_notification (user_id, kind, subject_type, subject_id, about)"
            " SELECT %s, 'critical-waits', 'result', gen_random_uuid()::text, 'version 1'"
            " FROM generate_series(1, 5000)",
            [people["anna"].pk],
        )
        cursor.execute("ANALYZE team_notification, orders_review")
        with CaptureQueriesContext(connection) as queries:
            assert escalate_criticals() == 2
        cursor.execute(f"EXPLAIN {queries[0]['sql']}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "notification_critical" in plan, plan


def test_escalation_e_mail_names_nobody(mail_server: MailServer, people: dict[str, User]) -> None:
    people["anna"].email = "anna@clinic.invalid"
    people["anna"].save()
    make_critical_result()
    escalate_criticals()
    past = timezone.now() - timedelta(seconds=1)
    Notification.objects.exclude(mail_due_at=None).update(mail_due_at=past)
    assert send_due() == 1
    (mail,) = mail_server.taken
    assert mail["Subject"] == "A critical result has not been acknowledged"
    body = str(mail.get_payload())
    assert "Maria" not in body and "Potassium" not in body and str(uid("order", 1)) not in body
