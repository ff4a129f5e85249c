"""A forgotten password: a link by e-mail, good once, that tells strangers nothing."""

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
from pytest_django import Settings

from backoffice.accounts import throttle
from backoffice.accounts.emails import send_due
from backoffice.models import AccountNews, AuditEntry, PasswordReset, StaffSession
from tests.accounts.people import PASSWORD, code, log_in, person, with_app
from tests.team.posting import Post, posting

pytestmark = pytest.mark.django_db
ASK = "/accounts/password/forgotten/"
NEW = "another made up one 8"


@pytest.fixture
def post(settings: Settings) -> Iterator[Post]:
    with posting() as post:
        settings.EMAIL_URL, settings.EMAIL_FROM = post.url, "office@clinic.invalid"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", post.port
        settings.SITE_URL = "https://office.invalid"
        yield post


def ask(email: str = "ada@clinic.invalid", **more: Any) -> Any:
    return Client().post(ASK, {"email": email}, **more)


def link(post: Post) -> str:
    """The path of the last link that was mailed."""
    bodies = "".join(str(message.get_payload()) for message in post.taken)
    found = re.findall(r"https://office\.invalid(/accounts/password/new/\S+)", bodies)
    assert found, bodies
    return str(found[-1])


def set_anew(client: Client, path: str, password: str = NEW) -> Any:
    page = client.get(path, follow=True)
    if not page.redirect_chain:
        return page
    form = {"new_password1": password, "new_password2": password}
    return client.post(page.redirect_chain[-1][0], form)


def test_a_link_sets_a_new_password_once_and_ends_all_sessions(client: Client, post: Post) -> None:
    user = person(email="Ada@clinic.invalid")
    log_in(client)
    assert ask()["Location"] == f"{ASK}asked/"
    assert send_due() == 1
    assert post.taken[0]["To"] == "Ada@clinic.invalid"
    stranger = Client()
    assert "at least 12" in set_anew(stranger, link(post), "short").content.decode()
    assert set_anew(stranger, link(post))["Location"] == "/accounts/login/"
    assert not StaffSession.objects.filter(user=user).exists()
    assert client.get("/preferences/").status_code == 302
    assert "no longer works" in set_anew(Client(), link(post)).content.decode()
    assert log_in(stranger, password=PASSWORD).status_code == 200
    assert log_in(stranger, password=NEW).status_code == 302
    assert AuditEntry.objects.get(object_type="password").reason == "by e-mail"


def test_it_goes_to_our_address_whatever_host_was_asked(post: Post) -> None:
    person(email="ada@clinic.invalid")
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "http"}
    ask(headers=forged, HTTP_HOST="localhost")
    send_due()
    body = str(post.taken[0].get_payload())
    assert "https://office.invalid/" in body and "evil" not in body and "localhost" not in body


def test_it_does_not_skip_the_second_factor(client: Client, post: Post) -> None:
    person(email="ada@clinic.invalid")
    log_in(client)
    secret = with_app(client)
    ask()
    send_due()
    owner = Client()
    set_anew(owner, link(post))
    assert owner.get("/preferences/").status_code == 302
    assert log_in(owner, password=NEW)["Location"] == "/accounts/login/second-factor/"
    owner.post("/accounts/login/second-factor/", {"code": code(secret)})
    assert owner.get("/preferences/").status_code == 200


def test_it_is_good_for_half_an_hour(post: Post) -> None:
    person(email="ada@clinic.invalid")
    ask()
    send_due()
    with time_machine.travel(timezone.now() + timedelta(seconds=1801)):
        assert "no longer works" in set_anew(Client(), link(post)).content.decode()
    assert configured.PASSWORD_RESET_TIMEOUT == 1800


def test_strangers_learn_nothing_and_nothing_is_sent(post: Post) -> None:
    person("closed-sample", email="closed@clinic.invalid", is_active=False)
    elsewhere = person("sso-sample", email="sso@clinic.invalid")
    elsewhere.set_unusable_password()
    elsewhere.save()
    for email in ("nobody@clinic.invalid", "closed@clinic.invalid", "sso@clinic.invalid"):
        assert ask(email)["Location"] == f"{ASK}asked/"
    assert send_due() == 0 and not post.taken
    wrong = ask("no address")
    assert wrong.status_code == 400 and 'value="no address"' in wrong.content.decode()


def test_nobody_is_flooded(post: Post) -> None:
    person(email="ada@clinic.invalid")
    for n in range(6):
        assert ask(REMOTE_ADDR=f"198.51.100.{n}").status_code == 302
        send_due()
    assert len(post.taken) == 2


def test_what_cannot_be_sent_waits_and_is_sent_later(post: Post) -> None:
    person(email="ada@clinic.invalid")
    post.refuse = "451 later"
    ask()
    assert send_due() == 0
    assert PasswordReset.objects.count() == 1
    post.refuse = ""
    assert send_due() == 0  # not at once again
    PasswordReset.objects.update(due_at=timezone.now())
    assert send_due() == 1
    assert not PasswordReset.objects.exists()


def test_what_nobody_waits_for_any_more_is_dropped(post: Post) -> None:
    person(email="ada@clinic.invalid")
    ask()
    PasswordReset.objects.update(asked_at=timezone.now() - timedelta(hours=1))
    assert send_due() == 0
    assert not PasswordReset.objects.exists() and not post.taken


def test_without_a_mail_server_the_page_says_whom_to_ask(client: Client) -> None:
    person(email="ada@clinic.invalid")
    assert "sends no e-mail" in client.get(ASK).content.decode()
    assert "sends no e-mail" in ask().content.decode()
    assert not PasswordReset.objects.exists()


def test_its_owner_gets_in_while_strangers_guess(post: Post) -> None:
    person(email="ada@clinic.invalid")
    while log_in(Client(), password="guess").status_code != 429:
        pass
    ask()
    send_due()
    owner = Client()
    set_anew(owner, link(post))
    assert log_in(owner, password=NEW).status_code == 302


def test_guesses_at_the_old_password_count_like_those_at_the_log_in(client: Client) -> None:
    person()
    log_in(client)
    form = {
        "old_password": "wrong",
        "new_password1": "made up too 77",
        "new_password2": "made up too 77",
    }
    told = [client.post("/accounts/password/", form).content.decode() for _ in range(8)]
    assert "was entered incorrectly" in told[0]
    assert "Too many" in told[-1]
    refusals = AuditEntry.objects.filter(action="login").exclude(outcome="ok")
    assert refusals.count() >= 5


# Kept with its entry, told to its owner, and there in spite of strangers


@contextmanager
def without_the_log() -> Iterator[None]:
    table = AuditEntry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO audit_away")
        yield
        cursor.execute(f"ALTER TABLE audit_away RENAME TO {table}")


@pytest.mark.parametrize("way", ["changed", "by a link"])
def test_a_password_stands_with_its_entry_or_not_at_all(
    client: Client, post: Post, way: str
) -> None:
    user = person(email="ada@clinic.invalid")
    other = Client()
    log_in(other)
    if way == "changed":
        log_in(client)
        address = "/accounts/password/"
    else:
        ask()
        send_due()
        address = client.get(link(post), follow=True).redirect_chain[-1][0]
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    client.raise_request_exception = False
    with without_the_log():
        assert client.post(address, form).status_code >= 500
    user.refresh_from_db()
    assert user.check_password(PASSWORD)
    assert other.get("/preferences/").status_code == 200
    assert not AccountNews.objects.exists()
    assert client.post(address, form).status_code == 302
    user.refresh_from_db()
    assert user.check_password(NEW)
    assert AuditEntry.objects.filter(object_type="password", object_ids=[str(user.pk)]).count() == 1


def test_strangers_who_use_up_its_links_leave_the_owner_a_good_one(post: Post) -> None:
    person(email="ada@clinic.invalid")
    for n in range(9):
        ask(REMOTE_ADDR=f"198.51.100.{n}")
        send_due()
    assert ask()["Location"] == f"{ASK}asked/"
    assert send_due() == 0, "none is mailed,"
    assert set_anew(Client(), link(post))["Location"] == "/accounts/login/", "and none is needed"
    # However long they go on: the next link comes before the last one ends.
    assert 2 * throttle.RESETS.every <= configured.PASSWORD_RESET_TIMEOUT


def test_the_owner_hears_of_a_changed_password(client: Client, post: Post) -> None:
    person(email="ada@clinic.invalid")
    log_in(client)
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    client.post("/accounts/password/", form, REMOTE_ADDR="198.51.100.7")
    post.refuse = "451 later"
    assert send_due() == 0
    post.refuse = ""
    assert send_due() == 0, "not at once again"
    AccountNews.objects.update(due_at=timezone.now())
    assert send_due() == 1 and not AccountNews.objects.exists()
    message = post.taken[-1]
    assert (message["To"], message["Subject"]) == (
        "ada@clinic.invalid",
        "Your password was changed",
    )
    body = str(message.get_payload())
    assert "ada-sample" in body and "198.51.100.7" in body and NEW not in body


def test_the_owner_hears_of_factors_whoever_changed_them(client: Client, post: Post) -> None:
    user = person(email="ada@clinic.invalid")
    log_in(client)
    with_app(client)
    client.post("/accounts/second-factor/codes/new/")
    client.post("/accounts/second-factor/app/remove/")
    root = Client()
    person("root-sample", role="administrator")
    log_in(root, "root-sample")
    form = {"action": "take_second_factors", "_selected_action": [user.pk]}
    root.post("/admin/backoffice/user/", form)
    send_due()
    assert [one["Subject"] for one in post.taken] == [
        "Authenticator app added",
        "Recovery codes made anew",
        "Authenticator app removed",
        "Your second factors were taken away",
    ]


def test_news_nobody_waits_for_any_more_are_dropped(client: Client, post: Post) -> None:
    user = person(email="ada@clinic.invalid")
    old = timezone.now() - timedelta(days=3)
    AccountNews.objects.create(user=user, what="sample", asked_at=old, due_at=old)
    assert send_due() == 0
    assert not AccountNews.objects.exists() and not post.taken
