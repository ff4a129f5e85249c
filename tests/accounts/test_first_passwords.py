"""First passwords are random, are valid for a day and must be replaced."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts import first_passwords
from backoffice.accounts.emails import send_due
from backoffice.accounts.models import PasswordReset, StaffSession, User
from backoffice.audit.models import AuditEntry
from tests.accounts.people import (
    PASSWORD,
    add_authenticator_app,
    log_in,
    person,
    sign_in_recently_authenticated,
)
from tests.accounts.test_passwords import reset_link, set_new_password
from tests.team.mail_server import MailServer

pytestmark = pytest.mark.django_db
CHANGE = "/accounts/password/"
NEW_PASSWORD = "another made up one 8"
LIST = "/admin/accounts/user/"
NORA = {
    "username": "nora-sample",
    "first_name": "Nora",
    "last_name": "Sample",
    "email": "nora@clinic.invalid",
    "roles": ["clinician"],
    "time_zone": "UTC",
    "is_active": "on",
}


@pytest.fixture
def administrator(client: Client) -> User:
    user = person("root-sample", role="administrator")
    sign_in_recently_authenticated(client, user)
    return user


@pytest.fixture
def first_password(client: Client, administrator: User) -> str:
    """Create an account for Nora and return the first password that the administrator sees."""
    return shown_password(client.post(f"{LIST}add/", NORA))


def shown_password(page: Any) -> str:
    found = re.search(
        r"<dt>Temporary password</dt><dd[^>]*><code>([\w-]+)</code>", page.content.decode()
    )
    assert found, page.content.decode()
    return found[1]


def change_password(client: Client, old_password: str, new: str = NEW_PASSWORD) -> Any:
    form = {"old_password": old_password, "new_password1": new, "new_password2": new}
    return client.post(CHANGE, form)


def test_first_password_opens_only_the_password_page(first_password: str) -> None:
    assert re.fullmatch(r"([a-z2-9]{4}-?){4}", first_password)
    nora = Client()
    assert log_in(nora, "nora-sample", first_password).status_code == 302
    for page in ("/orders/", "/preferences/", "/accounts/", "/api/orders/"):
        assert nora.get(page)["Location"] == CHANGE, page
    assert nora.get("/orders/", headers={"sec-fetch-dest": "empty"}).status_code == 403
    assert nora.post("/preferences/", {"theme": "dark"}).status_code == 403
    assert nora.get("/accounts/session/").status_code == 200
    assert "Choose your password" in nora.get(CHANGE).content.decode()
    assert change_password(nora, first_password, first_password).status_code == 200, (
        "the first password is not accepted as the new one"
    )
    assert nora.get("/orders/")["Location"] == CHANGE
    assert change_password(nora, first_password).status_code == 302
    assert nora.get("/orders/").status_code == 200
    again = Client()
    assert log_in(again, "nora-sample", first_password).status_code == 200
    assert log_in(again, "nora-sample", NEW_PASSWORD)["Location"] == "/"
    assert again.get("/orders/").status_code == 200


def test_first_password_expires_after_a_day(first_password: str) -> None:
    with time_machine.travel(timezone.now() + timedelta(hours=23)):
        assert log_in(Client(), "nora-sample", first_password).status_code == 302
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        late = Client()
        answer = log_in(late, "nora-sample", first_password)
        assert "temporary password has expired" in answer.content.decode()
        assert late.get("/preferences/").status_code == 302
    assert AuditEntry.objects.filter(reason="first password over", outcome="refused").exists()


def test_first_password_expires_despite_rehashing(
    first_password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-in rehashes a password with old parameters, which makes the hash differ."""
    monkeypatch.setattr(Argon2PasswordHasher, "time_cost", Argon2PasswordHasher.time_cost + 1)
    before = User.objects.get(username="nora-sample").password
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        late = Client()
        assert (
            "temporary password has expired"
            in log_in(late, "nora-sample", first_password).content.decode()
        )
        assert late.get("/preferences/").status_code == 302
    nora = User.objects.get(username="nora-sample")
    assert nora.password != before, "it was rehashed"
    assert nora.first_password_until is not None


def test_wrong_password_does_not_reveal_expired_first_one(first_password: str) -> None:
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        answer = log_in(Client(), "nora-sample", "guess")
    assert "temporary password has expired" not in answer.content.decode()


def test_second_factor_is_required_before_password_change(
    first_password: str, settings: Settings
) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"all"})
    nora = Client()
    log_in(nora, "nora-sample", first_password)
    assert nora.get(CHANGE)["Location"] == "/accounts/second-factor/"
    add_authenticator_app(nora)
    assert nora.get("/accounts/second-factor/codes/").status_code == 200
    assert nora.get("/orders/")["Location"] == CHANGE
    assert change_password(nora, first_password).status_code == 302
    assert nora.get("/orders/").status_code == 200


def test_first_password_is_shown_once_and_not_stored(client: Client, first_password: str) -> None:
    assert "first-password" not in client.get(LIST).content.decode()
    assert first_password not in client.get(LIST).content.decode()
    stored = " ".join(StaffSession.objects.values_list("session_data", flat=True))
    assert first_password not in stored and first_password not in str(client.cookies)
    entry = AuditEntry.objects.get(object_type="member of staff")
    assert first_password not in str(entry.after)


def test_other_sign_ins_need_no_password_change() -> None:
    """A person who signs in by single sign-on or has an older session keeps working."""
    user = person()
    client = Client()
    client.force_login(user)
    first_passwords.issue(user)
    client.force_login(user)
    assert client.get("/preferences/").status_code == 200


def test_new_account_gets_mailed_link_with_mail_server(
    client: Client, administrator: User, mail_server: MailServer
) -> None:
    page = client.post(f"{LIST}add/", NORA, follow=True).content.decode()
    assert "is on its way to nora@clinic.invalid" in page
    assert send_due() == 1 and mail_server.taken[0]["To"] == "nora@clinic.invalid"
    nora = Client()
    set_new_password(nora, reset_link(mail_server))
    log_in(nora, "nora-sample", NEW_PASSWORD)
    assert nora.get("/orders/").status_code == 200


def test_new_account_can_request_another_link(
    client: Client, administrator: User, mail_server: MailServer
) -> None:
    client.post(f"{LIST}add/", NORA)
    PasswordReset.objects.all().delete()
    Client().post("/accounts/password/forgotten/", {"email": NORA["email"]})
    assert send_due() == 1


def test_administrator_voids_password_immediately(client: Client, administrator: User) -> None:
    user = person("nora-sample", role="clinician", email="nora@clinic.invalid")
    their_client = Client()
    their_client.force_login(user)
    answer = client.post(f"{LIST}{user.pk}/", {**NORA, "anew": "on"})
    assert their_client.get("/preferences/").status_code == 302
    assert log_in(Client(), "nora-sample", PASSWORD).status_code == 200
    assert log_in(Client(), "nora-sample", shown_password(answer)).status_code == 302


def test_voided_password_is_reported_to_previous_address(
    client: Client, administrator: User, mail_server: MailServer
) -> None:
    user = person("nora-sample", role="clinician", email="before@clinic.invalid")
    client.post(f"{LIST}{user.pk}/", {**NORA, "anew": "on"})
    send_due()
    bodies = {(one["To"], one["Subject"]): str(one.get_payload()) for one in mail_server.taken}
    set_new_password(Client(), reset_link(mail_server))
    link_mail = ("nora@clinic.invalid", "Set your password")
    assert bodies.keys() == {
        link_mail,
        ("before@clinic.invalid", "Your password was reset"),
        ("before@clinic.invalid", "Your email address was changed"),
    }
    assert (
        "reset your password" in bodies[link_mail] and "ignore this email" not in bodies[link_mail]
    )
    assert "/password/new/" not in "".join(bodies[one] for one in bodies if one != link_mail)


def test_changed_address_is_reported_to_previous_address(
    client: Client, administrator: User, mail_server: MailServer
) -> None:
    user = person("nora-sample", role="clinician", email="before@clinic.invalid")
    client.post(f"{LIST}{user.pk}/", NORA)
    client.post(f"{LIST}{user.pk}/", NORA)
    assert send_due() == 1, "the second request changes nothing"
    message = mail_server.taken[0]
    assert (message["To"], message["Subject"]) == (
        "before@clinic.invalid",
        "Your email address was changed",
    )


def test_link_mail_of_new_account_mentions_no_old_password(
    client: Client, administrator: User, mail_server: MailServer
) -> None:
    client.post(f"{LIST}add/", NORA)
    send_due()
    assert [one["Subject"] for one in mail_server.taken] == ["Set your password"]
    assert "voided" not in str(mail_server.taken[0].get_payload())


def test_password_set_by_operator_is_no_first_password(first_password: str) -> None:
    user = User.objects.get(username="nora-sample")
    user.set_password(NEW_PASSWORD)
    user.save()
    nora = Client()
    log_in(nora, "nora-sample", NEW_PASSWORD)
    assert nora.get("/orders/").status_code == 200
