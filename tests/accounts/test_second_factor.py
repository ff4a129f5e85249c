"""The second factor: who must have one, what proves it, and that no page bypasses it."""

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

from backoffice.accounts.models import StaffSession, Throttle, User
from backoffice.apps import check_roles
from backoffice.audit.models import AuditEntry
from backoffice.core.encryption import cipher
from tests.accounts.people import (
    PASSWORD,
    add_authenticator_app,
    code,
    log_in,
    person,
    stored_app_secret,
)
from tests.test_access import routes

pytestmark = pytest.mark.django_db
SET_UP_URL = "/accounts/second-factor/"
CODE_URL = "/accounts/login/second-factor/"


@pytest.fixture
def required_for_all(settings: Settings) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"all"})


@pytest.fixture
def ada(client: Client) -> Iterator[tuple[User, str]]:
    """A clinician with an app who has just signed out, and the secret of the app.

    The clock is frozen, so that the current code does not change between two lines of a test.
    """
    with time_machine.travel(time.time(), tick=False):
        user = person(role="clinician")
        log_in(client)
        secret = add_authenticator_app(client)
        client.post("/accounts/logout/")
        yield user, secret


def send_code(client: Client, typed: str) -> Any:
    return client.post(CODE_URL, {"code": typed})


def is_inside(client: Client) -> bool:
    return client.get("/orders/").status_code == 200


def test_password_alone_does_not_sign_in_with_app(client: Client, ada: tuple[User, str]) -> None:
    answer = log_in(client)
    assert answer["Location"] == CODE_URL
    before = client.cookies[configured.SESSION_COOKIE_NAME].value
    assert not is_inside(client)
    assert not AuditEntry.objects.filter(action="login", outcome="ok").exclude(
        pk=AuditEntry.objects.filter(action="login").earliest("pk").pk
    )
    page = send_code(client, "000000")
    assert "Wrong code" in page.content.decode()
    assert AuditEntry.objects.filter(outcome="refused", reason="second factor").count() == 1
    assert send_code(client, code(ada[1]))["Location"] == "/"
    assert is_inside(client)
    assert client.cookies[configured.SESSION_COOKIE_NAME].value != before


def test_code_works_once_within_one_time_step(ada: tuple[User, str]) -> None:
    for step, is_accepted in (
        (-1, True),
        (-1, False),
        (1, True),
        (1, False),
        (2, False),
        (-2, False),
    ):
        client = Client()
        log_in(client)
        answer = send_code(client, code(ada[1], step))
        assert (answer.status_code == 302) is is_accepted, step
        assert is_inside(client) is is_accepted


def test_wrong_codes_are_throttled(client: Client, ada: tuple[User, str]) -> None:
    log_in(client)
    for n in range(5):
        assert "Wrong code" in send_code(client, f"00000{n}").content.decode()
    answer = send_code(client, code(ada[1]))
    assert "Too many wrong codes" in answer.content.decode()
    assert not is_inside(client)
    Throttle.objects.all().delete()
    assert send_code(client, code(ada[1])).status_code == 302


def test_recovery_code_works_once(client: Client, ada: tuple[User, str]) -> None:
    log_in(client)
    send_code(client, code(ada[1]))
    client.post("/accounts/second-factor/codes/new/")
    page = client.get("/accounts/second-factor/codes/").content.decode()
    codes = re.findall(r"<code>(\d{8})</code>", page)
    assert len(codes) == 10
    again = client.get("/accounts/second-factor/codes/").content.decode()
    assert "shown again" in again and not any(one in again for one in codes)
    for is_accepted in (True, False):
        other = Client()
        log_in(other)
        assert (send_code(other, codes[3]).status_code == 302) is is_accepted
    assert "9 unused" in client.get("/accounts/").content.decode()
    authenticator = Authenticator.objects.get(type="recovery_codes")
    assert "seed" not in authenticator.data
    hashes = [cipher.decrypt(one, "second factor") for one in authenticator.data["migrated_codes"]]
    assert len(hashes) == len({one.split("$")[-2] for one in hashes}) == 9, "a salt for each"
    assert all(one.startswith("argon2$") for one in hashes)
    assert not any(one in str([authenticator.data, hashes]) for one in codes)
    client.post("/accounts/second-factor/codes/new/")
    other = Client()
    log_in(other)
    assert send_code(other, codes[4]).status_code == 200, "the old codes no longer work"
    new = client.get("/accounts/second-factor/codes/").content.decode()
    assert send_code(other, re.findall(r"<code>(\d{8})</code>", new)[9]).status_code == 302


def test_unhashed_recovery_codes_keep_working(client: Client, ada: tuple[User, str]) -> None:
    authenticator = Authenticator.objects.get(type="recovery_codes")
    codes = authenticator.wrap().generate_codes()
    for is_accepted in (True, False):
        other = Client()
        log_in(other)
        assert (
            send_code(other, f"{codes[0][:4]}-{codes[0][4:]}").status_code == 302
        ) is is_accepted


def test_second_factor_secrets_are_encrypted(ada: tuple[User, str]) -> None:
    user, secret = ada
    for authenticator in Authenticator.objects.filter(user=user):
        assert secret not in str(authenticator.data)
    assert stored_app_secret(user) == secret
    seed = Authenticator.objects.get(user=user, type="recovery_codes").data["seed"]
    assert not re.fullmatch("[0-9a-f]+", seed)


def test_key_rotation_reencrypts_second_factor_secrets(
    settings: Settings, ada: tuple[User, str]
) -> None:
    old, new = settings.FIELD_KEYS, {9: b"another-made-up-key-of-32-bytes!"}
    client = Client()
    log_in(client)
    send_code(client, code(ada[1], -1))
    page = client.get("/accounts/second-factor/codes/").content.decode()
    codes = re.findall(r"<code>(\d{8})</code>", page)
    settings.FIELD_KEYS = {**new, **old}
    output = io.StringIO()
    call_command("rotatekeys", stdout=output)
    assert "secrets of second factors: key 9: 11" in output.getvalue().splitlines()
    settings.FIELD_KEYS = new
    for typed in (code(ada[1]), codes[0]):
        client = Client()
        log_in(client)
        assert send_code(client, typed).status_code == 302


# Required by role


@pytest.mark.parametrize(
    ("required_role", "is_redirected"), [("clinician", True), ("all", True), ("auditor", False)]
)
def test_required_role_is_redirected_to_setup(
    client: Client, settings: Settings, required_role: str, is_redirected: bool
) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({required_role})
    person(role="clinician")
    log_in(client)
    answer = client.get("/orders/")
    assert (answer.status_code, answer.get("Location")) == (
        (302, SET_UP_URL) if is_redirected else (200, None)
    )


def test_required_second_factor_blocks_all_other_pages(
    client: Client, required_for_all: None
) -> None:
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
        *("accounts/second-factor/passkey/", "jsi18n/"),
    }
    for path in ("/admin/", "/admin/accounts/user/", "/api/patients/"):
        assert client.get(path)["Location"] == SET_UP_URL
    fetched = {"sec-fetch-dest": "empty"}
    assert client.get("/api/patients/", headers=fetched).status_code == 403
    assert client.post("/preferences/", {"theme": "dark"}).status_code == 403
    assert AuditEntry.objects.count() == entries
    assert "Your role requires one" in client.get(SET_UP_URL).content.decode()
    add_authenticator_app(client)
    assert is_inside(client)


def test_setup_changes_session_key(client: Client, required_for_all: None) -> None:
    user = person(role="clinician")
    log_in(client)
    before = client.cookies[configured.SESSION_COOKIE_NAME].value
    add_authenticator_app(client)
    assert client.cookies[configured.SESSION_COOKIE_NAME].value != before
    assert StaffSession.objects.filter(user=user).count() == 1


def test_removing_last_factor_redirects_to_setup(client: Client, required_for_all: None) -> None:
    person(role="clinician")
    log_in(client)
    add_authenticator_app(client)
    assert is_inside(client)
    client.post("/accounts/second-factor/app/remove/")
    assert not Authenticator.objects.exists()
    assert client.get("/orders/")["Location"] == SET_UP_URL
    reasons = AuditEntry.objects.filter(object_type="second factor").values_list(
        "reason", flat=True
    )
    assert list(reasons.order_by("pk")) == ["authenticator app added", "authenticator app removed"]


def test_older_session_cannot_add_factor_without_a_code(client: Client, settings: Settings) -> None:
    person(role="clinician")
    older = Client()
    log_in(older)
    log_in(client)
    secret = add_authenticator_app(client)
    for address in ("/accounts/second-factor/passkey/", "/accounts/second-factor/app/"):
        assert older.get(address)["Location"].startswith("/accounts/proof/code/")
    settings.SECOND_FACTOR_ROLES = frozenset({"clinician"})
    assert older.get("/orders/", follow=True).redirect_chain[-1][0].startswith("/accounts/proof/")
    older.post("/accounts/proof/code/?next=/", {"code": code(secret, 1)})
    assert is_inside(older)


def test_factor_changes_require_recent_authentication(client: Client) -> None:
    client.force_login(person())
    for name in ("mfa_activate_totp", "mfa_add_webauthn"):
        answer = client.get(reverse(name))
        assert answer["Location"].startswith("/accounts/proof/?next=")
    proof = {"password": PASSWORD, "next": "/accounts/second-factor/app/"}
    assert client.post("/accounts/proof/", proof)["Location"] == proof["next"]
    add_authenticator_app(client)


def test_password_confirmation_is_throttled(client: Client) -> None:
    client.force_login(person())
    for n in range(5):
        assert (
            "Wrong password"
            in client.post("/accounts/proof/", {"password": f"{n}"}).content.decode()
        )
    answer = client.post("/accounts/proof/", {"password": PASSWORD})
    assert "Too many attempts" in answer.content.decode()


def test_administrator_removes_lost_second_factors(client: Client, ada: tuple[User, str]) -> None:
    person("root-sample", is_staff=True, is_superuser=True)
    log_in(client, "root-sample")
    form = {"action": "take_second_factors", "_selected_action": [ada[0].pk]}
    assert client.post("/admin/accounts/user/", form).status_code == 302
    assert not Authenticator.objects.exists()
    entry = AuditEntry.objects.get(reason="removed by an administrator")
    assert entry.object_ids == [str(ada[0].pk)]


def test_admin_shows_no_second_factor_models(client: Client, ada: tuple[User, str]) -> None:
    person("root-sample", is_staff=True, is_superuser=True)
    log_in(client, "root-sample")
    page = client.get("/admin/").content.decode()
    assert "Users" in page
    assert not any(word in page for word in ("Authenticator", "Social", "Email address"))


def test_unknown_required_role_is_refused_at_startup(settings: Settings) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"clinican"})
    with pytest.raises(ImproperlyConfigured, match="clinican"):
        check_roles()


def test_invalid_passkey_is_refused_and_recorded(client: Client) -> None:
    refused = ("{}", "[]", "no json", '{"response": {"userHandle": "MQ"}}', "")
    for n, credential in enumerate(refused):
        sent = {"credential": credential}
        answer = client.post("/accounts/login/passkey/", sent, REMOTE_ADDR=f"192.0.2.{n}")
        assert answer["Location"] == "/accounts/login/"
    assert AuditEntry.objects.filter(outcome="refused", reason="passkey").count() == 5
