"""What people are told, and the page of it."""

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
from backoffice.team.actions import assign, notify
from backoffice.team.models import MailChoice, Notification
from backoffice.team.notification_kinds import NOTIFICATION_KINDS
from backoffice.team.notifications import commands_to_notify, notify_request_outcomes
from orders.models import Appointment, Order
from orders.notifications import notify_order_changes
from tests.api.rows import NOW, envelope, order, patient, staff, uid
from tests.team.forms import ORDER, shown

pytestmark = pytest.mark.django_db


def kinds(user: User) -> list[str]:
    return list(
        Notification.objects.filter(user=user).order_by("pk").values_list("kind", flat=True)
    )


def asked(user: User, **values: Any) -> CommandRecord:
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


def test_requests_that_end_badly_are_told_once_for_each_sending() -> None:
    ana, ben = staff("front desk", "ana"), staff("clinician", "ben")
    # It waited for weeks, and was refused just now.
    begun = {"requested_at": timezone.now() - timedelta(days=20), "finished_at": timezone.now()}
    refused = asked(ana, state="refused", attempts=1, **begun)
    waits = asked(ben, state="undecided", attempts=2)
    asked(ana, state="done", attempts=1)
    long_ago = timezone.now() - timedelta(days=30)
    asked(ana, state="refused", requested_at=long_ago, finished_at=long_ago)
    assert notify_request_outcomes() == 2
    assert kinds(ana) == ["refused"] and kinds(ben) == ["undecided"]
    assert Notification.objects.get(user=ana).subject_id == str(refused.pk)
    Notification.objects.update(seen_at=timezone.now())
    assert notify_request_outcomes() == 0
    CommandRecord.objects.filter(pk=waits.pk).update(attempts=3)
    assert notify_request_outcomes() == 1


def test_of_what_was_refused_only_the_latest_is_looked_at() -> None:
    """Every ten seconds, however many were refused in all the years before."""
    ana = staff("front desk", "ana")
    for number in range(200):
        ended = timezone.now() - timedelta(days=30 + number)
        asked(ana, state="refused", requested_at=ended, finished_at=ended)
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


def test_the_person_of_an_order_hears_what_becomes_of_it(rf: RequestFactory) -> None:
    ana = staff("front desk", "ana")
    order(1, bucket="needs-action", last_event_id=5).save()
    visit(NOW).save()
    request = rf.get("/")
    request.user = ana
    assign(request, "order", ORDER, ana)
    assign(request, "patient", uid("patient", 1), ana)
    assign(request, "order", uuid4(), ana)
    assert notify_order_changes() == 0, "what was so when it was taken is no news"
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
    assert kinds(ana) == ["needs-action", "result-in", "visit-moved", "visit-moved"]


def test_who_takes_it_over_starts_from_how_it_stands(rf: RequestFactory) -> None:
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
    assert kinds(ben) == []


def test_the_page_groups_by_day_and_record_and_names_only_for_who_may(client: Client) -> None:
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
    assert "This order is yours and needs action" in page
    assert "The result of this order, which is yours, is in" in page
    assert "Unmatched result 00000000" in page and "assigned to you" in page
    assert page.count("<li data-unseen>") == 2


def test_the_bell_counts_in_one_query_and_stops_at_a_hundred(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    user = staff("front desk", "ana")
    assert "data-bell" not in shown(staff("front desk", "ben"), "bell")
    for _ in range(101):
        notify([user], "assigned", "order", ORDER)
    roles_of(user)
    with django_assert_num_queries(1):
        assert ">99+</span>" in shown(user, "bell")
    assert "bell" not in shown(staff("viewer"), "bell")


def test_opening_one_leads_to_its_record_and_it_is_seen(client: Client) -> None:
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


def test_all_are_seen_but_what_came_after_the_page(client: Client) -> None:
    user = staff("front desk", "ana")
    notify([user], "assigned", "order", ORDER)
    newest = Notification.objects.get().pk
    notify([user], "result-in", "order", ORDER)
    client.force_login(user)
    for wrong in ("", "x", "٣", "9" * 30):
        client.post("/notifications/seen/", {"newest": wrong})
    assert Notification.objects.filter(seen_at=None).count() == 2
    client.post("/notifications/seen/", {"newest": newest})
    assert Notification.objects.get(seen_at=None).kind == "result-in"
    page = client.get("/notifications/?show=unseen").content.decode()
    assert "which is yours, is in" in page and "assigned to you" not in page


def test_each_person_chooses_what_is_mailed(client: Client) -> None:
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


def test_pages_go_on_where_the_last_ended(client: Client) -> None:
    user = staff("front desk", "ana")
    for n in range(60):
        notify([user], "assigned", "order", uid("order", n))
    client.force_login(user)
    first = client.get("/notifications/")
    assert len(first.context["page"].rows) == 50
    second = client.get("/notifications/", {"after": first.context["page"].next})
    assert len(second.context["page"].rows) == 10
