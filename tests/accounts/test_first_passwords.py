"""First passwords: random, for a day, and nobody goes on with one."""

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
from backoffice.models import AuditEntry, PasswordReset, StaffSession, User
from tests.accounts.people import PASSWORD, freshly, log_in, person, with_app
from tests.accounts.test_passwords import link, set_anew
from tests.team.posting import Post, posting

pytestmark = pytest.mark.django_db
CHANGE = "/accounts/password/"
OWN = "another made up one 8"
LIST = "/admin/backoffice/user/"
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
    freshly(client, user)
    return user


@pytest.fixture
def first(client: Client, administrator: User) -> str:
    """Nora has an account; the first password that the administrator is shown."""
    return shown(client.post(f"{LIST}add/", NORA))


def shown(page: Any) -> str:
    found = re.search(
        r"<dt>First password</dt><dd[^>]*><code>([\w-]+)</code>", page.content.decode()
    )
    assert found, page.content.decode()
    return found[1]


def choose(client: Client, old: str, new: str = OWN) -> Any:
    form = {"old_password": old, "new_password1": new, "new_password2": new}
    return client.post(CHANGE, form)


def test_it_opens_nothing_but_the_page_to_choose_another(first: str) -> None:
    assert re.fullmatch(r"([a-z2-9]{4}-?){4}", first)
    nora = Client()
    assert log_in(nora, "nora-sample", first).status_code == 302
    for page in ("/orders/", "/preferences/", "/accounts/", "/api/orders/"):
        assert nora.get(page)["Location"] == CHANGE, page
    assert nora.get("/orders/", headers={"sec-fetch-dest": "empty"}).status_code == 403
    assert nora.post("/preferences/", {"theme": "dark"}).status_code == 403
    assert nora.get("/accounts/session/").status_code == 200
    assert "Choose your password" in nora.get(CHANGE).content.decode()
    assert choose(nora, first, first).status_code == 200, "the same one is none of their own"
    assert nora.get("/orders/")["Location"] == CHANGE
    assert choose(nora, first).status_code == 302
    assert nora.get("/orders/").status_code == 200
    again = Client()
    assert log_in(again, "nora-sample", first).status_code == 200
    assert log_in(again, "nora-sample", OWN)["Location"] == "/"
    assert again.get("/orders/").status_code == 200


def test_it_is_good_for_a_day(first: str) -> None:
    with time_machine.travel(timezone.now() + timedelta(hours=23)):
        assert log_in(Client(), "nora-sample", first).status_code == 302
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        late = Client()
        answer = log_in(late, "nora-sample", first)
        assert "good for a day" in answer.content.decode()
        assert late.get("/preferences/").status_code == 302
    assert AuditEntry.objects.filter(reason="first password over", outcome="refused").exists()


def test_nor_longer_where_hashes_are_of_older_parameters(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log-in hashes the password anew then, which makes it nobody's own."""
    monkeypatch.setattr(Argon2PasswordHasher, "time_cost", Argon2PasswordHasher.time_cost + 1)
    before = User.objects.get(username="nora-sample").password
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        late = Client()
        assert "good for a day" in log_in(late, "nora-sample", first).content.decode()
        assert late.get("/preferences/").status_code == 302
    nora = User.objects.get(username="nora-sample")
    assert nora.password != before, "it was hashed anew"
    assert nora.first_password_until is not None


def test_a_wrong_one_is_told_like_any_other(first: str) -> None:
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        answer = log_in(Client(), "nora-sample", "guess")
    assert "good for a day" not in answer.content.decode()


def test_the_second_factor_comes_before_it(first: str, settings: Settings) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"all"})
    nora = Client()
    log_in(nora, "nora-sample", first)
    assert nora.get(CHANGE)["Location"] == "/accounts/second-factor/"
    with_app(nora)
    assert nora.get("/accounts/second-factor/codes/").status_code == 200
    assert nora.get("/orders/")["Location"] == CHANGE
    assert choose(nora, first).status_code == 302
    assert nora.get("/orders/").status_code == 200


def test_nobody_sees_it_again_and_it_is_kept_nowhere(client: Client, first: str) -> None:
    assert "first-password" not in client.get(LIST).content.decode()
    assert first not in client.get(LIST).content.decode()
    kept = " ".join(StaffSession.objects.values_list("session_data", flat=True))
    assert first not in kept and first not in str(client.cookies)
    entry = AuditEntry.objects.get(object_type="member of staff")
    assert first not in str(entry.after)


def test_who_comes_in_by_other_means_owes_nothing() -> None:
    """By single sign-on, or with a session that was begun before."""
    user = person()
    client = Client()
    client.force_login(user)
    first_passwords.issue(user)
    client.force_login(user)
    assert client.get("/preferences/").status_code == 200


def test_where_mail_goes_out_a_link_does_it(
    client: Client, administrator: User, settings: Settings
) -> None:
    with posting() as post:
        with_mail(settings, post)
        page = client.post(f"{LIST}add/", NORA, follow=True).content.decode()
        assert "is on its way to nora@clinic.invalid" in page
        assert send_due() == 1 and post.taken[0]["To"] == "nora@clinic.invalid"
        nora = Client()
        set_anew(nora, link(post))
    log_in(nora, "nora-sample", OWN)
    assert nora.get("/orders/").status_code == 200


def test_who_is_too_late_asks_for_another_link(
    client: Client, administrator: User, settings: Settings
) -> None:
    with posting() as post:
        with_mail(settings, post)
        client.post(f"{LIST}add/", NORA)
        PasswordReset.objects.all().delete()
        Client().post("/accounts/password/forgotten/", {"email": NORA["email"]})
        assert send_due() == 1


def test_a_password_is_voided_at_once(client: Client, administrator: User) -> None:
    user = person("nora-sample", role="clinician", email="nora@clinic.invalid")
    theirs = Client()
    theirs.force_login(user)
    answer = client.post(f"{LIST}{user.pk}/", {**NORA, "anew": "on"})
    assert theirs.get("/preferences/").status_code == 302
    assert log_in(Client(), "nora-sample", PASSWORD).status_code == 200
    assert log_in(Client(), "nora-sample", shown(answer)).status_code == 302


def test_the_owner_hears_of_a_voided_password_where_they_were_until_then(
    client: Client, administrator: User, settings: Settings
) -> None:
    user = person("nora-sample", role="clinician", email="before@clinic.invalid")
    with posting() as post:
        with_mail(settings, post)
        client.post(f"{LIST}{user.pk}/", {**NORA, "anew": "on"})
        send_due()
        told = {(one["To"], one["Subject"]): str(one.get_payload()) for one in post.taken}
        set_anew(Client(), link(post))
    link_mail = ("nora@clinic.invalid", "Set your password")
    assert told.keys() == {
        link_mail,
        ("before@clinic.invalid", "Your password was voided"),
        ("before@clinic.invalid", "Your e-mail address was changed"),
    }
    assert "voided your password" in told[link_mail] and "by itself" not in told[link_mail]
    assert "/password/new/" not in "".join(told[one] for one in told if one != link_mail)


def test_another_address_alone_is_told_to_the_one_before(
    client: Client, administrator: User, settings: Settings
) -> None:
    user = person("nora-sample", role="clinician", email="before@clinic.invalid")
    with posting() as post:
        with_mail(settings, post)
        client.post(f"{LIST}{user.pk}/", NORA)
        client.post(f"{LIST}{user.pk}/", NORA)
        assert send_due() == 1, "the second changes nothing"
    said = post.taken[0]
    assert (said["To"], said["Subject"]) == (
        "before@clinic.invalid",
        "Your e-mail address was changed",
    )


def test_the_link_of_a_new_account_speaks_of_no_password_before(
    client: Client, administrator: User, settings: Settings
) -> None:
    with posting() as post:
        with_mail(settings, post)
        client.post(f"{LIST}add/", NORA)
        send_due()
    assert [one["Subject"] for one in post.taken] == ["Set your password"]
    assert "voided" not in str(post.taken[0].get_payload())


def test_a_password_that_the_operator_sets_is_none(first: str) -> None:
    user = User.objects.get(username="nora-sample")
    user.set_password(OWN)
    user.save()
    nora = Client()
    log_in(nora, "nora-sample", OWN)
    assert nora.get("/orders/").status_code == 200


def with_mail(settings: Settings, post: Post) -> None:
    settings.EMAIL_URL, settings.EMAIL_FROM = post.url, "office@clinic.invalid"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", post.port
    settings.SITE_URL = "https://office.invalid"
