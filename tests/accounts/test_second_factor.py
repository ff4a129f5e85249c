"""The second factor: who must have one, what proves it, and that nothing goes past it."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.conf import settings as configured
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.apps import check_roles
from backoffice.core.encryption import cipher
from backoffice.models import AuditEntry, StaffSession, Throttle, User
from tests.accounts.people import PASSWORD, code, kept_secret, log_in, person, with_app
from tests.test_access import routes

pytestmark = pytest.mark.django_db
SET_UP = "/accounts/second-factor/"
ASKED = "/accounts/login/second-factor/"


@pytest.fixture
def demanded(settings: Settings) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"all"})


@pytest.fixture
def ada(client: Client) -> Iterator[tuple[User, str]]:
    """A clinician with an app who has just logged out, and the secret of the app.

    The clock stands still: which code is that of now shall not change between two lines of a test.
    """
    with time_machine.travel(time.time(), tick=False):
        user = person(role="clinician")
        log_in(client)
        secret = with_app(client)
        client.post("/accounts/logout/")
        yield user, secret


def answered(client: Client, typed: str) -> Any:
    return client.post(ASKED, {"code": typed})


def inside(client: Client) -> bool:
    return client.get("/orders/").status_code == 200


def test_a_password_alone_is_not_enough_once_there_is_one(
    client: Client, ada: tuple[User, str]
) -> None:
    answer = log_in(client)
    assert answer["Location"] == ASKED
    before = client.cookies[configured.SESSION_COOKIE_NAME].value
    assert not inside(client)
    assert not AuditEntry.objects.filter(action="login", outcome="ok").exclude(
        pk=AuditEntry.objects.filter(action="login").earliest("pk").pk
    )
    page = answered(client, "000000")
    assert "This code is not right" in page.content.decode()
    assert AuditEntry.objects.filter(outcome="refused", reason="second factor").count() == 1
    assert answered(client, code(ada[1]))["Location"] == "/"
    assert inside(client)
    assert client.cookies[configured.SESSION_COOKIE_NAME].value != before


def test_a_code_is_good_once_and_one_step_beside_its_time(ada: tuple[User, str]) -> None:
    for step, good in ((-1, True), (-1, False), (1, True), (1, False), (2, False), (-2, False)):
        client = Client()
        log_in(client)
        answer = answered(client, code(ada[1], step))
        assert (answer.status_code == 302) is good, step
        assert inside(client) is good


def test_codes_cannot_be_guessed(client: Client, ada: tuple[User, str]) -> None:
    log_in(client)
    for n in range(5):
        assert "not right" in answered(client, f"00000{n}").content.decode()
    answer = answered(client, code(ada[1]))
    assert "Too many wrong codes" in answer.content.decode()
    assert not inside(client)
    Throttle.objects.all().delete()
    assert answered(client, code(ada[1])).status_code == 302


def test_a_recovery_code_stands_in_once(client: Client, ada: tuple[User, str]) -> None:
    log_in(client)
    answered(client, code(ada[1]))
    client.post("/accounts/second-factor/codes/new/")
    page = client.get("/accounts/second-factor/codes/").content.decode()
    codes = re.findall(r"<code>(\d{8})</code>", page)
    assert len(codes) == 10
    again = client.get("/accounts/second-factor/codes/").content.decode()
    assert "shown before" in again and not any(one in again for one in codes)
    for good in (True, False):
        other = Client()
        log_in(other)
        assert (answered(other, codes[3]).status_code == 302) is good
    assert "9 unused" in client.get("/accounts/").content.decode()
    kept = Authenticator.objects.get(type="recovery_codes")
    assert "seed" not in kept.data
    hashes = [cipher.decrypt(one, "second factor") for one in kept.data["migrated_codes"]]
    assert len(hashes) == len({one.split("$")[-2] for one in hashes}) == 9, "a salt for each"
    assert all(one.startswith("argon2$") for one in hashes)
    assert not any(one in str([kept.data, hashes]) for one in codes)
    client.post("/accounts/second-factor/codes/new/")
    other = Client()
    log_in(other)
    assert answered(other, codes[4]).status_code == 200, "the old ones are void"
    new = client.get("/accounts/second-factor/codes/").content.decode()
    assert answered(other, re.findall(r"<code>(\d{8})</code>", new)[9]).status_code == 302


def test_codes_that_were_shown_before_they_were_hashed_go_on(
    client: Client, ada: tuple[User, str]
) -> None:
    kept = Authenticator.objects.get(type="recovery_codes")
    codes = kept.wrap().generate_codes()
    for good in (True, False):
        other = Client()
        log_in(other)
        assert (answered(other, f"{codes[0][:4]}-{codes[0][4:]}").status_code == 302) is good


def test_secrets_are_sealed(ada: tuple[User, str]) -> None:
    user, secret = ada
    for kept in Authenticator.objects.filter(user=user):
        assert secret not in str(kept.data)
    assert kept_secret(user) == secret
    seed = Authenticator.objects.get(user=user, type="recovery_codes").data["seed"]
    assert not re.fullmatch("[0-9a-f]+", seed)


def test_they_are_sealed_anew_when_keys_rotate(settings: Settings, ada: tuple[User, str]) -> None:
    old, new = settings.FIELD_KEYS, {9: b"another-made-up-key-of-32-bytes!"}
    client = Client()
    log_in(client)
    answered(client, code(ada[1], -1))
    page = client.get("/accounts/second-factor/codes/").content.decode()
    codes = re.findall(r"<code>(\d{8})</code>", page)
    settings.FIELD_KEYS = {**new, **old}
    said = io.StringIO()
    call_command("rotatekeys", stdout=said)
    assert "secrets of second factors: key 9: 11" in said.getvalue().splitlines()
    settings.FIELD_KEYS = new
    for typed in (code(ada[1]), codes[0]):
        client = Client()
        log_in(client)
        assert answered(client, typed).status_code == 302


# Demanded by role


@pytest.mark.parametrize(
    ("demanded_of", "led"), [("clinician", True), ("all", True), ("auditor", False)]
)
def test_a_role_that_must_have_one_sees_nothing_before(
    client: Client, settings: Settings, demanded_of: str, led: bool
) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({demanded_of})
    person(role="clinician")
    log_in(client)
    answer = client.get("/orders/")
    assert (answer.status_code, answer.get("Location")) == ((302, SET_UP) if led else (200, None))


def test_no_page_shows_before_and_every_page_after(client: Client, demanded: None) -> None:
    person(role="administrator", is_staff=True, is_superuser=True)
    log_in(client)
    entries = AuditEntry.objects.count()
    shown = set()
    for address, _ in routes():
        if "<" not in address and not address.startswith("api/docs"):
            answer = client.get(f"/{address}")
            if answer.status_code == 200:
                shown.add(address)
    assert shown <= {
        *("health/live", "health/ready", "health/inbox", "metrics", "accounts/session/"),
        *("accounts/password/forgotten/", "accounts/password/forgotten/asked/"),
        *("accounts/second-factor/", "accounts/second-factor/app/", "accounts/proof/"),
        *("accounts/second-factor/passkey/", "metrics"),
    }
    for path in ("/admin/", "/admin/backoffice/user/", "/api/patients/"):
        assert client.get(path)["Location"] == SET_UP
    fetched = {"sec-fetch-dest": "empty"}
    assert client.get("/api/patients/", headers=fetched).status_code == 403
    assert client.post("/preferences/", {"theme": "dark"}).status_code == 403
    assert AuditEntry.objects.count() == entries
    assert "Your role needs one" in client.get(SET_UP).content.decode()
    with_app(client)
    assert inside(client)


def test_setting_one_up_gives_the_session_a_new_key(client: Client, demanded: None) -> None:
    user = person(role="clinician")
    log_in(client)
    before = client.cookies[configured.SESSION_COOKIE_NAME].value
    with_app(client)
    assert client.cookies[configured.SESSION_COOKIE_NAME].value != before
    assert StaffSession.objects.filter(user=user).count() == 1


def test_whoever_takes_their_last_one_away_is_led_again(client: Client, demanded: None) -> None:
    person(role="clinician")
    log_in(client)
    with_app(client)
    assert inside(client)
    client.post("/accounts/second-factor/app/remove/")
    assert not Authenticator.objects.exists()
    assert client.get("/orders/")["Location"] == SET_UP
    said = AuditEntry.objects.filter(object_type="second factor").values_list("reason", flat=True)
    assert list(said.order_by("pk")) == ["authenticator app added", "authenticator app removed"]


def test_an_older_session_cannot_add_another_past_the_one_there_is(
    client: Client, settings: Settings
) -> None:
    person(role="clinician")
    older = Client()
    log_in(older)
    log_in(client)
    secret = with_app(client)
    for address in ("/accounts/second-factor/passkey/", "/accounts/second-factor/app/"):
        assert older.get(address)["Location"].startswith("/accounts/proof/code/")
    settings.SECOND_FACTOR_ROLES = frozenset({"clinician"})
    assert older.get("/orders/", follow=True).redirect_chain[-1][0].startswith("/accounts/proof/")
    older.post("/accounts/proof/code/?next=/", {"code": code(secret, 1)})
    assert inside(older)


def test_changes_need_a_fresh_proof(client: Client) -> None:
    client.force_login(person())
    for name in ("mfa_activate_totp", "mfa_add_webauthn"):
        answer = client.get(reverse(name))
        assert answer["Location"].startswith("/accounts/proof/?next=")
    proof = {"password": PASSWORD, "next": "/accounts/second-factor/app/"}
    assert client.post("/accounts/proof/", proof)["Location"] == proof["next"]
    with_app(client)


def test_guessing_the_password_of_an_open_session_takes_long(client: Client) -> None:
    client.force_login(person())
    for n in range(5):
        assert "not your" in client.post("/accounts/proof/", {"password": f"{n}"}).content.decode()
    answer = client.post("/accounts/proof/", {"password": PASSWORD})
    assert "Too many attempts" in answer.content.decode()


def test_an_administrator_takes_lost_ones_away(client: Client, ada: tuple[User, str]) -> None:
    person("root-sample", is_staff=True, is_superuser=True)
    log_in(client, "root-sample")
    form = {"action": "take_second_factors", "_selected_action": [ada[0].pk]}
    assert client.post("/admin/backoffice/user/", form).status_code == 302
    assert not Authenticator.objects.exists()
    taken = AuditEntry.objects.get(reason="taken away")
    assert taken.object_ids == [str(ada[0].pk)]


def test_secrets_of_others_are_not_in_the_admin(client: Client, ada: tuple[User, str]) -> None:
    person("root-sample", is_staff=True, is_superuser=True)
    log_in(client, "root-sample")
    page = client.get("/admin/").content.decode()
    assert "Users" in page
    assert not any(word in page for word in ("Authenticator", "Social", "Email address"))


def test_a_role_that_does_not_exist_is_refused_at_the_start(settings: Settings) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"clinican"})
    with pytest.raises(ImproperlyConfigured, match="clinican"):
        check_roles()


def test_a_passkey_that_is_none_is_refused_and_recorded(client: Client) -> None:
    refused = ("{}", "[]", "no json", '{"response": {"userHandle": "MQ"}}', "")
    for n, credential in enumerate(refused):
        sent = {"credential": credential}
        answer = client.post("/accounts/login/passkey/", sent, REMOTE_ADDR=f"192.0.2.{n}")
        assert answer["Location"] == "/accounts/login/"
    assert AuditEntry.objects.filter(outcome="refused", reason="passkey").count() == 5
