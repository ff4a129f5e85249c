"""E-mail to staff by a real mail server: what it says, that it comes once, and how it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.team.actions import notify
from backoffice.team.emails import MAX_ATTEMPTS, MAX_LINES, send_due
from backoffice.team.models import MailChoice, Notification
from tests.api.rows import patient, staff
from tests.team.forms import ORDER
from tests.team.posting import Post, posting


@pytest.fixture
def post(settings: Settings) -> Iterator[Post]:
    with posting() as post:
        settings.EMAIL_URL, settings.EMAIL_FROM = post.url, "office@clinic.invalid"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", post.port
        settings.SITE_URL = "https://office.invalid"
        yield post


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
def test_a_message_says_that_something_waits_and_where_and_nothing_more(post: Post) -> None:
    user = person()
    patient(1).save()
    notify([user], "needs-action", "order", ORDER, about="event 1")
    assert send_due() == 0, "not before a minute has passed"
    due_now()
    assert send_due() == 1
    row, mail = Notification.objects.get(), post.taken[0]
    assert (mail["To"], mail["From"]) == ("ana@clinic.invalid", "office@clinic.invalid")
    assert mail["Subject"] == "An order that is yours needs you"
    body = mail.get_payload()
    assert f"https://office.invalid/notifications/{row.pk}/" in body
    assert str(ORDER) not in body and "Ada" not in body
    assert mail["Message-ID"] == f"<{row.mail_id}@office.invalid>"
    assert row.mailed_at and row.mail_due_at is None and row.mail_attempts == 1
    due_now()
    assert send_due() == 0 and len(post.taken) == 1


@pytest.mark.django_db
def test_what_is_due_for_one_person_is_one_message(post: Post) -> None:
    ana, ben = person("ana"), person("ben")
    for occurrence in ("event 1", "event 2", "event 3"):
        notify([ana], "result-in", "order", ORDER, about=occurrence)
    notify([ben], "result-in", "order", ORDER)
    due_now()
    assert send_due() == 2
    by_person = {mail["To"]: mail for mail in post.taken}
    assert by_person["ana@clinic.invalid"]["Subject"] == "3 things wait for you"
    assert str(by_person["ana@clinic.invalid"].get_payload()).count("/notifications/") == 4
    assert str(by_person["ben@clinic.invalid"].get_payload()).count("/notifications/") == 2


@pytest.mark.django_db
def test_very_much_is_one_message_too(post: Post) -> None:
    ana = person()
    for n in range(MAX_LINES + 7):
        notify([ana], "assigned", "order", ORDER, about=f"change {n}")
    due_now()
    assert send_due() == 1
    (mail,) = post.taken
    body = str(mail.get_payload())
    assert mail["Subject"] == f"{MAX_LINES + 7} things wait for you" and "And 7 more: " in body
    due_now()
    assert send_due() == 0 and not Notification.objects.filter(mailed_at=None).exists()


@pytest.mark.django_db
def test_an_address_nobody_can_write_to_is_given_up_and_holds_nobody_up(post: Post) -> None:
    broken, ana = person("broken"), person("ana")
    User.objects.filter(pk=broken.pk).update(email="broken\n@clinic.invalid")
    for user in (broken, ana):
        notify([user], "result-in", "order", ORDER)
    due_now()
    assert send_due() == 1
    row = Notification.objects.get(user=broken)
    assert row.mail_due_at is None and row.mail_error


@pytest.mark.django_db
def test_what_was_seen_or_is_not_wanted_is_not_mailed(post: Post, client: Client) -> None:
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
    assert send_due() == 0 and post.taken == []


@pytest.mark.django_db
def test_a_refusal_is_tried_again_or_given_up_and_always_shown(post: Post, client: Client) -> None:
    user = person()
    notify([user], "result-in", "order", ORDER)
    client.force_login(user)
    post.refuse = "451 later"
    due_now()
    assert send_due() == 0
    row = Notification.objects.get()
    assert row.mail_error and row.mail_due_at is not None and row.mail_due_at > timezone.now()
    assert "Not e-mailed." in client.get("/notifications/").content.decode()
    post.refuse = ""
    due_now()
    assert send_due() == 1
    row.refresh_from_db()
    assert row.mailed_at and row.mail_error == "" and row.mail_attempts == 2
    notify([user], "result-in", "order", ORDER)
    post.refuse = "550 nobody of that name"
    due_now()
    assert send_due() == 0
    row = Notification.objects.latest("pk")
    assert row.mail_due_at is None and "this address" in row.mail_error


@pytest.mark.django_db
def test_without_a_mail_server_it_is_tried_for_long_then_given_up(
    post: Post, settings: Settings
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
def test_without_configuration_nothing_is_to_be_mailed() -> None:
    notify([person()], "result-in", "order", ORDER)
    assert Notification.objects.get().mail_due_at is None and send_due() == 0


@pytest.mark.django_db(transaction=True)
def test_a_killed_worker_leaves_one_message_that_is_sent_again_as_itself(post: Post) -> None:
    notify([person()], "result-in", "order", ORDER)
    due_now()
    post.hold = threading.Event()
    name = connection.settings_dict["NAME"]
    url = os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{name}"
    here = {
        **os.environ,
        "DATABASE_URL": url,
        "EMAIL_URL": post.url,
        "SITE_URL": "https://office.invalid",
        "DJANGO_SETTINGS_MODULE": "backoffice.settings",
    }
    worker = subprocess.Popen([sys.executable, "-m", "tests.team.mailer"], env=here)
    try:
        assert post.got.wait(30), "the worker sent nothing"
        # While it is under way, nobody else sends it.
        assert send_due() == 0
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait(10)
        post.hold.set()
        post.hold = None
    row = Notification.objects.get()
    assert row.mailed_at is None and row.mail_attempts == 1
    due_now()
    assert send_due() == 1
    row.refresh_from_db()
    assert row.mailed_at and row.mail_attempts == 2
    first, second = post.taken
    assert first["Message-ID"] == second["Message-ID"]


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_send_everything_once(post: Post) -> None:
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
    assert sum(sent) == len(people) == len(post.taken)
    assert {mail["To"] for mail in post.taken} == {user.email for user in people}
