"""A forgotten password is reset by an e-mailed link that works once and reveals nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings as configured
from django.db import connection
from django.test import Client
from django.utils import timezone

from backoffice.accounts import throttle
from backoffice.accounts.emails import send_due
from backoffice.accounts.models import AccountNews, PasswordReset, StaffSession
from backoffice.audit.models import AuditEntry
from tests.accounts.people import PASSWORD, add_authenticator_app, code, log_in, person
from tests.team.mail_server import MailServer

pytestmark = pytest.mark.django_db
FORGOTTEN_URL = "/accounts/password/forgotten/"
NEW_PASSWORD = "another made up one 8"


def request_reset(email: str = "ada@clinic.invalid", **more: Any) -> Any:
    return Client().post(FORGOTTEN_URL, {"email": email}, **more)


def reset_link(mail_server: MailServer) -> str:
    """Return the path of the last mailed link."""
    bodies = "".join(str(message.get_payload()) for message in mail_server.taken)
    found = re.findall(r"https://office\.invalid(/accounts/password/new/\S+)", bodies)
    assert found, bodies
    return str(found[-1])


def set_new_password(client: Client, path: str, password: str = NEW_PASSWORD) -> Any:
    page = client.get(path, follow=True)
    if not page.redirect_chain:
        return page
    form = {"new_password1": password, "new_password2": password}
    return client.post(page.redirect_chain[-1][0], form)


def test_link_sets_password_once_and_ends_all_sessions(
    client: Client, mail_server: MailServer
) -> None:
    user = person(email="Ada@clinic.invalid")
    log_in(client)
    assert request_reset()["Location"] == f"{FORGOTTEN_URL}asked/"
    assert send_due() == 1
    assert mail_server.taken[0]["To"] == "Ada@clinic.invalid"
    stranger = Client()
    assert (
        "at least 12"
        in set_new_password(stranger, reset_link(mail_server), "short").content.decode()
    )
    assert set_new_password(stranger, reset_link(mail_server))["Location"] == "/accounts/login/"
    assert not StaffSession.objects.filter(user=user).exists()
    assert client.get("/preferences/").status_code == 302
    assert "no longer works" in set_new_password(Client(), reset_link(mail_server)).content.decode()
    assert log_in(stranger, password=PASSWORD).status_code == 200
    assert log_in(stranger, password=NEW_PASSWORD).status_code == 302
    assert AuditEntry.objects.get(object_type="password").reason == "by email"


def test_link_uses_site_url_whatever_host_was_requested(mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "http"}
    request_reset(headers=forged, HTTP_HOST="localhost")
    send_due()
    body = str(mail_server.taken[0].get_payload())
    assert "https://office.invalid/" in body and "evil" not in body and "localhost" not in body


def test_reset_does_not_skip_second_factor(client: Client, mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    log_in(client)
    secret = add_authenticator_app(client)
    request_reset()
    send_due()
    owner = Client()
    set_new_password(owner, reset_link(mail_server))
    assert owner.get("/preferences/").status_code == 302
    assert log_in(owner, password=NEW_PASSWORD)["Location"] == "/accounts/login/second-factor/"
    owner.post("/accounts/login/second-factor/", {"code": code(secret)})
    assert owner.get("/preferences/").status_code == 200


def test_link_expires_after_half_an_hour(mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    request_reset()
    send_due()
    with time_machine.travel(timezone.now() + timedelta(seconds=1801)):
        assert (
            "no longer works"
            in set_new_password(Client(), reset_link(mail_server)).content.decode()
        )
    assert configured.PASSWORD_RESET_TIMEOUT == 1800


def test_reset_reveals_no_accounts_and_sends_nothing(mail_server: MailServer) -> None:
    person("closed-sample", email="closed@clinic.invalid", is_active=False)
    sso_user = person("sso-sample", email="sso@clinic.invalid")
    sso_user.set_unusable_password()
    sso_user.save()
    for email in ("nobody@clinic.invalid", "closed@clinic.invalid", "sso@clinic.invalid"):
        assert request_reset(email)["Location"] == f"{FORGOTTEN_URL}asked/"
    assert send_due() == 0 and not mail_server.taken
    invalid = request_reset("no address")
    assert invalid.status_code == 400 and 'value="no address"' in invalid.content.decode()


def test_repeated_reset_requests_send_two_mails(mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    for n in range(6):
        assert request_reset(REMOTE_ADDR=f"198.51.100.{n}").status_code == 302
        send_due()
    assert len(mail_server.taken) == 2


def test_unsent_link_is_retried_later(mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    mail_server.refuse = "451 later"
    request_reset()
    assert send_due() == 0
    assert PasswordReset.objects.count() == 1
    mail_server.refuse = ""
    assert send_due() == 0  # not immediately again
    PasswordReset.objects.update(due_at=timezone.now())
    assert send_due() == 1
    assert not PasswordReset.objects.exists()


def test_outdated_reset_request_is_deleted(mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    request_reset()
    PasswordReset.objects.update(asked_at=timezone.now() - timedelta(hours=1))
    assert send_due() == 0
    assert not PasswordReset.objects.exists() and not mail_server.taken


def test_reset_page_explains_missing_mail_server(client: Client) -> None:
    person(email="ada@clinic.invalid")
    assert "Email is off" in client.get(FORGOTTEN_URL).content.decode()
    assert "Email is off" in request_reset().content.decode()
    assert not PasswordReset.objects.exists()


def test_owner_can_reset_while_others_guess_passwords(mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    while log_in(Client(), password="guess").status_code != 429:
        pass
    request_reset()
    send_due()
    owner = Client()
    set_new_password(owner, reset_link(mail_server))
    assert log_in(owner, password=NEW_PASSWORD).status_code == 302


def test_wrong_old_passwords_are_throttled_like_log_ins(client: Client) -> None:
    person()
    log_in(client)
    form = {
        "old_password": "wrong",
        "new_password1": "made up too 77",
        "new_password2": "made up too 77",
    }
    pages = [client.post("/accounts/password/", form).content.decode() for _ in range(8)]
    assert "was entered incorrectly" in pages[0]
    assert "Too many" in pages[-1]
    refusals = AuditEntry.objects.filter(action="login").exclude(outcome="ok")
    assert refusals.count() >= 5


# Password changes and their audit entries, notifications and throttling


@contextmanager
def without_audit_table() -> Iterator[None]:
    table = AuditEntry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO audit_away")
        yield
        cursor.execute(f"ALTER TABLE audit_away RENAME TO {table}")


@pytest.mark.parametrize("method", ["changed", "by a link"])
def test_password_change_fails_without_audit_entry(
    client: Client, mail_server: MailServer, method: str
) -> None:
    user = person(email="ada@clinic.invalid")
    other = Client()
    log_in(other)
    if method == "changed":
        log_in(client)
        address = "/accounts/password/"
    else:
        request_reset()
        send_due()
        address = client.get(reset_link(mail_server), follow=True).redirect_chain[-1][0]
    form = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    client.raise_request_exception = False
    with without_audit_table():
        assert client.post(address, form).status_code >= 500
    user.refresh_from_db()
    assert user.check_password(PASSWORD)
    assert other.get("/preferences/").status_code == 200
    assert not AccountNews.objects.exists()
    assert client.post(address, form).status_code == 302
    user.refresh_from_db()
    assert user.check_password(NEW_PASSWORD)
    assert AuditEntry.objects.filter(object_type="password", object_ids=[str(user.pk)]).count() == 1


def test_link_stays_valid_when_strangers_exhaust_the_limit(mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    for n in range(9):
        request_reset(REMOTE_ADDR=f"198.51.100.{n}")
        send_due()
    assert request_reset()["Location"] == f"{FORGOTTEN_URL}asked/"
    assert send_due() == 0, "no further link is mailed"
    assert set_new_password(Client(), reset_link(mail_server))["Location"] == "/accounts/login/", (
        "the earlier link still works"
    )
    # However long this goes on, the next link is mailed before the last one expires.
    assert 2 * throttle.RESETS.every <= configured.PASSWORD_RESET_TIMEOUT


def test_owner_is_notified_of_password_change(client: Client, mail_server: MailServer) -> None:
    person(email="ada@clinic.invalid")
    log_in(client)
    form = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    client.post("/accounts/password/", form, REMOTE_ADDR="198.51.100.7")
    mail_server.refuse = "451 later"
    assert send_due() == 0
    mail_server.refuse = ""
    assert send_due() == 0, "not immediately again"
    AccountNews.objects.update(due_at=timezone.now())
    assert send_due() == 1 and not AccountNews.objects.exists()
    message = mail_server.taken[-1]
    assert (message["To"], message["Subject"]) == (
        "ada@clinic.invalid",
        "Your password was changed",
    )
    body = str(message.get_payload())
    assert "ada-sample" in body and "198.51.100.7" in body and NEW_PASSWORD not in body


def test_owner_is_notified_of_second_factor_changes(
    client: Client, mail_server: MailServer
) -> None:
    user = person(email="ada@clinic.invalid")
    log_in(client)
    add_authenticator_app(client)
    client.post("/accounts/second-factor/codes/new/")
    client.post("/accounts/second-factor/app/remove/")
    root = Client()
    person("root-sample", role="administrator")
    log_in(root, "root-sample")
    form = {"action": "take_second_factors", "_selected_action": [user.pk]}
    root.post("/admin/accounts/user/", form)
    send_due()
    assert [one["Subject"] for one in mail_server.taken] == [
        "Authenticator app added",
        "Recovery codes replaced",
        "Authenticator app removed",
        "Your second factors were removed",
    ]


def test_outdated_account_notifications_are_deleted(
    client: Client, mail_server: MailServer
) -> None:
    user = person(email="ada@clinic.invalid")
    old = timezone.now() - timedelta(days=3)
    AccountNews.objects.create(user=user, what="sample", asked_at=old, due_at=old)
    assert send_due() == 0
    assert not AccountNews.objects.exists() and not mail_server.taken
