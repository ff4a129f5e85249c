"""Email to staff through a real mail server: content, single delivery and failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.team.emails import MAX_ATTEMPTS, MAX_LINES, send_due
from backoffice.team.models import MailChoice, Notification
from backoffice.team.notifications import notify
from tests.api.rows import patient, staff
from tests.team.forms import ORDER
from tests.team.mail_server import MailServer


def person(name: str = "ana", role: str = "front desk") -> User:
    user = staff(role, name)
    user.email = f"{name}@clinic.invalid"
    user.save()
    return user


def due_now() -> None:
    past = timezone.now() - timedelta(seconds=1)
    Notification.objects.exclude(mail_due_at=None).update(mail_due_at=past)
    Notification.objects.exclude(mail_lease_until=None).update(mail_lease_until=past)


@pytest.mark.django_db
def test_message_contains_only_subject_and_link(mail_server: MailServer) -> None:
    user = person()
    patient(1).save()
    notify([user], "needs-action", "order", ORDER, about="event 1")
    assert send_due() == 0, "messages wait for a minute"
    due_now()
    assert send_due() == 1
    row, mail = Notification.objects.get(), mail_server.taken[0]
    assert (mail["To"], mail["From"]) == ("ana@clinic.invalid", "office@clinic.invalid")
    assert mail["Subject"] == "An order assigned to you needs action"
    body = mail.get_payload()
    assert f"https://office.invalid/notifications/{row.pk}/" in body
    assert str(ORDER) not in body and "Ada" not in body
    assert mail["Message-ID"] == f"<{row.mail_id}@office.invalid>"
    assert row.mailed_at and row.mail_due_at is None and row.mail_attempts == 1
    due_now()
    assert send_due() == 0 and len(mail_server.taken) == 1


@pytest.mark.django_db
def test_due_notifications_of_person_are_one_message(mail_server: MailServer) -> None:
    ana, ben = person("ana"), person("ben")
    for occurrence in ("event 1", "event 2", "event 3"):
        notify([ana], "result-in", "order", ORDER, about=occurrence)
    notify([ben], "result-in", "order", ORDER)
    due_now()
    assert send_due() == 2
    by_person = {mail["To"]: mail for mail in mail_server.taken}
    assert by_person["ana@clinic.invalid"]["Subject"] == "3 new notifications"
    assert str(by_person["ana@clinic.invalid"].get_payload()).count("/notifications/") == 4
    assert str(by_person["ben@clinic.invalid"].get_payload()).count("/notifications/") == 2


@pytest.mark.django_db
def test_long_message_is_shortened(mail_server: MailServer) -> None:
    ana = person()
    for n in range(MAX_LINES + 7):
        notify([ana], "assigned", "order", ORDER, about=f"change {n}")
    due_now()
    assert send_due() == 1
    (mail,) = mail_server.taken
    body = str(mail.get_payload())
    assert mail["Subject"] == f"{MAX_LINES + 7} new notifications" and "And 7 more: " in body
    due_now()
    assert send_due() == 0 and not Notification.objects.filter(mailed_at=None).exists()


@pytest.mark.django_db
def test_invalid_address_is_given_up_without_delay_for_others(mail_server: MailServer) -> None:
    broken, ana = person("broken"), person("ana")
    User.objects.filter(pk=broken.pk).update(email="broken\n@clinic.invalid")
    for user in (broken, ana):
        notify([user], "result-in", "order", ORDER)
    due_now()
    assert send_due() == 1
    row = Notification.objects.get(user=broken)
    assert row.mail_due_at is None and row.mail_error


@pytest.mark.django_db
def test_seen_or_unwanted_notifications_are_not_mailed(
    mail_server: MailServer, client: Client
) -> None:
    ana = person()
    notify([ana], "assigned", "order", ORDER)
    notify([ana], "mentioned", "order", ORDER)
    Notification.objects.filter(kind="assigned").update(seen_at=timezone.now())
    MailChoice.objects.create(user=ana, kind="mentioned", wanted=False)
    due_now()
    assert send_due() == 0
    assert not Notification.objects.exclude(mail_due_at=None).exists()
    notify([ana], "mentioned", "order", ORDER)
    assert not Notification.objects.exclude(mail_due_at=None).exists()
    User.objects.filter(pk=ana.pk).update(is_active=False)
    notify([ana], "result-in", "order", ORDER)
    due_now()
    assert send_due() == 0 and mail_server.taken == []


@pytest.mark.django_db
def test_refused_mail_is_retried_or_given_up_and_shown(
    mail_server: MailServer, client: Client
) -> None:
    user = person()
    notify([user], "result-in", "order", ORDER)
    client.force_login(user)
    mail_server.refuse = "451 later"
    due_now()
    assert send_due() == 0
    row = Notification.objects.get()
    assert row.mail_error and row.mail_due_at is not None and row.mail_due_at > timezone.now()
    assert "Not emailed." in client.get("/notifications/").content.decode()
    mail_server.refuse = ""
    due_now()
    assert send_due() == 1
    row.refresh_from_db()
    assert row.mailed_at and row.mail_error == "" and row.mail_attempts == 2
    notify([user], "result-in", "order", ORDER)
    mail_server.refuse = "550 nobody of that name"
    due_now()
    assert send_due() == 0
    row = Notification.objects.latest("pk")
    assert row.mail_due_at is None and "this address" in row.mail_error


@pytest.mark.django_db
def test_unreachable_mail_server_is_retried_then_given_up(
    mail_server: MailServer, settings: Settings
) -> None:
    notify([person()], "result-in", "order", ORDER)
    settings.EMAIL_PORT = 1
    due_now()
    assert send_due() == 0
    Notification.objects.update(mail_attempts=MAX_ATTEMPTS - 1)
    due_now()
    assert send_due() == 0
    row = Notification.objects.get()
    assert row.mail_due_at is None and row.mailed_at is None and row.mail_error


@pytest.mark.django_db
def test_no_mail_is_due_without_configuration() -> None:
    notify([person()], "result-in", "order", ORDER)
    assert Notification.objects.get().mail_due_at is None and send_due() == 0


@pytest.mark.django_db(transaction=True)
def test_mail_of_killed_worker_is_resent_with_same_id(mail_server: MailServer) -> None:
    notify([person()], "result-in", "order", ORDER)
    due_now()
    mail_server.hold_response = threading.Event()
    name = connection.settings_dict["NAME"]
    url = os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{name}"
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "EMAIL_URL": mail_server.url,
        "SITE_URL": "https://office.invalid",
        "DJANGO_SETTINGS_MODULE": "backoffice.settings",
    }
    worker = subprocess.Popen([sys.executable, "-m", "tests.team.mailer"], env=environment)
    try:
        assert mail_server.has_message.wait(30), "the worker sent nothing"
        # While it is being sent, no other worker sends it.
        assert send_due() == 0
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait(10)
        mail_server.hold_response.set()
        mail_server.hold_response = None
    row = Notification.objects.get()
    assert row.mailed_at is None and row.mail_attempts == 1
    due_now()
    assert send_due() == 1
    row.refresh_from_db()
    assert row.mailed_at and row.mail_attempts == 2
    first, second = mail_server.taken
    assert first["Message-ID"] == second["Message-ID"]


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_send_each_message_once(mail_server: MailServer) -> None:
    people = [person(name) for name in "abcdef"]
    for user in people:
        notify([user], "result-in", "order", ORDER)
    due_now()
    sent: list[int] = []

    def work() -> None:
        try:
            sent.append(send_due())
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(sent) == len(people) == len(mail_server.taken)
    assert {mail["To"] for mail in mail_server.taken} == {user.email for user in people}
