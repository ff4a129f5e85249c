"""Notifications and their page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from backoffice.accounts.access import roles_of
from backoffice.accounts.models import User
from backoffice.outbox.models import CommandRecord
from backoffice.team.actions import assign
from backoffice.team.models import MailChoice, Notification
from backoffice.team.notification_texts import NOTIFICATION_KINDS
from backoffice.team.notifications import commands_to_notify, notify, notify_request_outcomes
from orders.models import Appointment, Order
from orders.notifications import notify_order_changes
from tests.api.rows import NOW, envelope, order, patient, staff, uid
from tests.team.forms import ORDER, render_tag

pytestmark = pytest.mark.django_db


def notification_kinds(user: User) -> list[str]:
    return list(
        Notification.objects.filter(user=user).order_by("pk").values_list("kind", flat=True)
    )


def create_command(user: User, **values: Any) -> CommandRecord:
    return CommandRecord.objects.create(
        **{
            "kind": "order.cancel",
            "title": "Cancel the order",
            "subject_type": "order",
            "subject_id": str(ORDER),
            "payload": {},
            "form_id": uuid4(),
            "idempotency_key": uuid4(),
            "requested_by": user,
            **values,
        }
    )


def test_failed_request_is_notified_once_per_attempt() -> None:
    ana, ben = staff("front desk", "ana"), staff("clinician", "ben")
    # The request waited for weeks and was refused just now.
    times = {"requested_at": timezone.now() - timedelta(days=20), "finished_at": timezone.now()}
    refused = create_command(ana, state="refused", attempts=1, **times)
    undecided = create_command(ben, state="undecided", attempts=2)
    create_command(ana, state="done", attempts=1)
    long_ago = timezone.now() - timedelta(days=30)
    create_command(ana, state="refused", requested_at=long_ago, finished_at=long_ago)
    assert notify_request_outcomes() == 2
    assert notification_kinds(ana) == ["refused"] and notification_kinds(ben) == ["undecided"]
    assert Notification.objects.get(user=ana).subject_id == str(refused.pk)
    Notification.objects.update(seen_at=timezone.now())
    assert notify_request_outcomes() == 0
    CommandRecord.objects.filter(pk=undecided.pk).update(attempts=3)
    assert notify_request_outcomes() == 1


def test_only_recently_refused_requests_are_read() -> None:
    """The query runs every ten seconds, however many requests were refused in earlier years."""
    ana = staff("front desk", "ana")
    for number in range(200):
        ended = timezone.now() - timedelta(days=30 + number)
        create_command(ana, state="refused", requested_at=ended, finished_at=ended)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE outbox_commandrecord")
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "command_refused_lately" in commands_to_notify()["refused"].explain()


def visit(start: Any, **values: Any) -> Appointment:
    return Appointment(
        **{
            "id": uid("visit", 1),
            "order_id": ORDER,
            "user_id": uid("patient", 1),
            "type": "phlebotomy",
            "provider": "made-up",
            "status": "confirmed",
            "event_status": "scheduled",
            "start_at": start,
            **envelope(),
            **values,
        }
    )


def test_assignee_is_notified_of_order_changes(rf: RequestFactory) -> None:
    ana = staff("front desk", "ana")
    order(1, bucket="needs-action", last_event_id=5).save()
    visit(NOW).save()
    request = rf.get("/")
    request.user = ana
    assign(request, "order", ORDER, ana)
    assign(request, "patient", uid("patient", 1), ana)
    assign(request, "order", uuid4(), ana)
    assert notify_order_changes() == 0, "the state at the time of the assignment is not notified"
    Order.objects.update(patient_dob="1990-01-01")
    assert notify_order_changes() == 0
    Order.objects.update(last_event_id=6, bucket="on-the-way")
    assert notify_order_changes() == 0
    Order.objects.update(last_event_id=7, bucket="needs-action")
    assert notify_order_changes() == 1 and notify_order_changes() == 0
    Order.objects.update(last_event_id=8, bucket="result-in")
    assert notify_order_changes() == 1
    Appointment.objects.update(start_at=NOW + timedelta(days=1))
    assert notify_order_changes() == 1
    Appointment.objects.update(status="cancelled")
    assert notify_order_changes() == 1 and notify_order_changes() == 0
    assert notification_kinds(ana) == ["needs-action", "result-in", "visit-moved", "visit-moved"]


def test_new_assignee_is_not_notified_of_current_state(rf: RequestFactory) -> None:
    ana, ben = staff("front desk", "ana"), staff("clinician", "ben")
    order(1, last_event_id=5).save()
    request = rf.get("/")
    request.user = ana
    assign(request, "order", ORDER, ana)
    notify_order_changes()
    Order.objects.update(last_event_id=6, bucket="needs-action")
    request.user = ben
    assign(request, "order", ORDER, ben, take=True)
    assert notify_order_changes() == 0
    assert notification_kinds(ben) == []


def test_page_groups_notifications_by_day_and_record(client: Client) -> None:
    user = staff("front desk", "ana")
    patient(1).save()
    order(1, patient_first_name="Testa", patient_last_name="Sample", lab_test_name="Iron").save()
    for kind in ("needs-action", "result-in"):
        notify([user], kind, "order", ORDER)
    notify([user], "assigned", "unmatched", UUID(int=7))
    notify([staff("clinician", "ben")], "assigned", "patient", UUID(int=8))
    client.force_login(user)
    page = client.get("/notifications/").content.decode()
    assert page.count("Iron, Testa Sample") == 1
    assert "This order is assigned to you and needs action" in page
    assert "The result of this order, assigned to you, is in" in page
    assert "Unmatched result 00000000" in page and "assigned to you" in page
    assert page.count("<li data-unseen>") == 2


def test_bell_counts_up_to_99_in_one_query(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    user = staff("front desk", "ana")
    assert "data-bell" not in render_tag(staff("front desk", "ben"), "bell()")
    for _ in range(101):
        notify([user], "assigned", "order", ORDER)
    roles_of(user)
    with django_assert_num_queries(1):
        assert ">99+</span>" in render_tag(user, "bell()")
    assert "bell" not in render_tag(staff("viewer"), "bell()")


def test_opening_notification_redirects_and_marks_as_seen(client: Client) -> None:
    user = staff("front desk", "ana")
    notify([user], "assigned", "order", ORDER)
    notify([user], "result-in", "order", ORDER)
    notify([user], "assigned", "patient", uid("patient", 1))
    client.force_login(user)
    row = Notification.objects.order_by("pk")[1]
    answer = client.get(f"/notifications/{row.pk}/")
    assert answer["Location"] == f"/orders/{ORDER}/"
    assert Notification.objects.filter(seen_at=None).count() == 1
    client.force_login(staff("clinician", "ben"))
    assert client.get(f"/notifications/{row.pk}/").status_code == 404


def test_mark_all_seen_excludes_newer_notifications(client: Client) -> None:
    user = staff("front desk", "ana")
    notify([user], "assigned", "order", ORDER)
    newest = Notification.objects.get().pk
    notify([user], "result-in", "order", ORDER)
    client.force_login(user)
    for invalid in ("", "x", "٣", "9" * 30):
        client.post("/notifications/seen/", {"newest": invalid})
    assert Notification.objects.filter(seen_at=None).count() == 2
    client.post("/notifications/seen/", {"newest": newest})
    assert Notification.objects.get(seen_at=None).kind == "result-in"
    page = client.get("/notifications/?show=unseen").content.decode()
    assert "assigned to you, is in" in page and "was assigned to you" not in page


def test_person_chooses_mailed_kinds(client: Client) -> None:
    user = staff("front desk", "ana")
    client.force_login(user)
    page = client.get("/notifications/choices/").content.decode()
    assert page.count(" checked") == len(NOTIFICATION_KINDS)
    client.post("/notifications/choices/", {"kind": ["assigned", "nonsense"]})
    client.post("/notifications/choices/", {"kind": ["assigned", "mentioned"]})
    unwanted = MailChoice.objects.filter(user=user, wanted=False)
    assert {row.kind for row in unwanted} == NOTIFICATION_KINDS.keys() - {
        "assigned",
        "mentioned",
    }
    assert client.get("/notifications/choices/").content.decode().count(" checked") == 2


def test_notifications_are_paged(client: Client) -> None:
    user = staff("front desk", "ana")
    for n in range(60):
        notify([user], "assigned", "order", uid("order", n))
    client.force_login(user)
    first = client.get("/notifications/")
    assert len(first.context["page"].rows) == 50
    second = client.get("/notifications/", {"after": first.context["page"].next})
    assert len(second.context["page"].rows) == 10
