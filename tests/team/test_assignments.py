"""Assignments: at most one person, and a second one sees who took it and when."""

from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.test import Client, RequestFactory

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.team.actions import AlreadyAssigned, assign
from backoffice.team.models import Assignment, AssignmentChange, Notification
from backoffice.team.notifications import notify
from tests.api.rows import order, staff
from tests.team.forms import ORDER, PATIENT, post, render_tag, signed_subject

TAG = 'assigned("order", order, patient)'


@pytest.mark.django_db
def test_record_can_be_taken_and_released(client: Client) -> None:
    user = staff("front desk", "ana")
    client.force_login(user)
    assert "Unassigned" in render_tag(user, TAG)
    assert post(client, "take")["Location"] == "/orders/"
    row = Assignment.objects.get()
    assert (row.user, row.by, row.patient_id) == (user, user, PATIENT)
    assert "Assigned to you since" in render_tag(user, TAG)
    assert "Assigned to <strong>ana</strong> since" in render_tag(staff("clinician"), TAG)
    post(client, "take")
    assert AssignmentChange.objects.count() == 1
    assert "Unassigned" in post(client, "release", htmx=True).content.decode()
    assert not Assignment.objects.exists()
    assert "Already unassigned" in post(client, "release", htmx=True).content.decode()
    entries = AuditEntry.objects.filter(object_type="assignment").order_by("pk")
    assert [(one.before, one.after) for one in entries] == [
        ({"works_on_it": None}, {"works_on_it": "ana"}),
        ({"works_on_it": "ana"}, {"works_on_it": None}),
    ]
    assert not Notification.objects.exists()


@pytest.mark.django_db
def test_second_person_sees_assignee_and_can_take_over(client: Client) -> None:
    ana, ben = staff("front desk", "ana"), staff("clinician", "ben")
    client.force_login(ana)
    post(client, "take")
    client.force_login(ben)
    page = post(client, "take", htmx=True).content.decode()
    assert "ana took this" in page and "Take over" in page
    assert Assignment.objects.get().user == ana
    # The page named a third person, who is no longer assigned, so nothing changes.
    page = post(client, "take", htmx=True, seen=ben.pk + 1000).content.decode()
    assert "ana took this" in page and Assignment.objects.get().user == ana
    post(client, "take", seen=ana.pk)
    assert Assignment.objects.get().user == ben
    change = AssignmentChange.objects.latest("pk")
    assert (change.before, change.after, change.by) == (ana, ben, ben)
    notification = Notification.objects.get()
    assert (notification.user, notification.kind) == (ana, "taken")


@pytest.mark.django_db
def test_colleague_is_notified_of_assignment(client: Client) -> None:
    ana, ben = staff("front desk", "ana"), staff("clinician", "ben")
    staff("viewer", "vera")
    client.force_login(ana)
    form = client.get("/team/give/", {"about": signed_subject()})
    page = form.content.decode()
    assert "ben" in page and "vera" not in page
    answer = post(client, "give", user="")
    assert answer.status_code == 400 and "Choose a colleague." in answer.content.decode()
    assert post(client, "give", user=ben.pk).status_code == 302
    assert Assignment.objects.get().user == ben
    row = Notification.objects.get()
    assert (row.user, row.kind, row.subject_id) == (ben, "assigned", str(ORDER))


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["take", "release", "give"])
def test_assignment_requires_write_permission(client: Client, name: str) -> None:
    user = staff("viewer")
    client.force_login(user)
    assert post(client, name, user=user.pk).status_code == 403
    assert not Assignment.objects.exists()
    assert "form" not in render_tag(user, TAG)


@pytest.mark.django_db
def test_unknown_subject_and_notification_kinds_are_refused(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = staff("front desk")
    with pytest.raises(LookupError):
        assign(request, "parcel", 1, request.user)
    with pytest.raises(LookupError):
        notify([request.user], "shouted", "order", ORDER)


@pytest.mark.django_db
def test_same_occurrence_is_notified_once() -> None:
    user = staff("front desk")
    assert notify([user, user], "needs-action", "order", ORDER, about="event 7") == 1
    notify([user], "needs-action", "order", ORDER, about="event 7")
    assert Notification.objects.count() == 1
    notify([user], "needs-action", "order", ORDER, about="event 8")
    notify([user], "needs-action", "order", ORDER)
    notify([user], "needs-action", "order", ORDER)
    assert Notification.objects.count() == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_take_over", [False, True])
def test_concurrent_assignment_has_one_winner(rf: RequestFactory, is_take_over: bool) -> None:
    holder, people = staff("clinician", "holder"), [staff("front desk", name) for name in "ab"]
    request = rf.get("/")
    request.user = holder
    if is_take_over:
        assign(request, "order", ORDER, holder, PATIENT)
    start, won, lost = threading.Barrier(2), [], []

    def take(user: User) -> None:
        own_request = rf.get("/")
        own_request.user = user
        try:
            start.wait(5)
            assign(
                own_request,
                "order",
                ORDER,
                user,
                PATIENT,
                take=is_take_over,
                shown_assignee=holder.pk,
            )
            won.append(user)
        except AlreadyAssigned as taken:
            lost.append((user, taken.user))
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(won) == 1 and len(lost) == 1
    loser, named_winner = lost[0]
    assert named_winner == won[0] != loser
    assert Assignment.objects.get().user == won[0]
    assert AssignmentChange.objects.filter(after=loser).count() == 0


@pytest.mark.django_db
def test_record_of_inactive_assignee_can_be_taken(client: Client) -> None:
    ana, ben = staff("front desk", "ana"), staff("clinician", "ben")
    order(1).save()
    client.force_login(ana)
    post(client, "take")
    client.force_login(ben)
    assert not client.get("/orders/", {"assigned": "nobody"}).context["page"].rows
    ana.is_active = False
    ana.save()
    assert "Assigned to <strong>ana</strong> (inactive account)" in render_tag(ben, TAG)
    rows = client.get("/orders/", {"assigned": "nobody"}).context["page"].rows
    assert [row.pk for row in rows] == [ORDER]
    post(client, "take")
    assert Assignment.objects.get().user == ben
