"""Made-up people who sign in with the form and with codes of an authenticator app."""

from __future__ import annotations

import re
import time
from typing import Any

from allauth.account.internal.flows.login import record_authentication
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.test import Client

from backoffice.accounts.models import User
from backoffice.core.encryption import cipher

PASSWORD = "made up and long 7"


def person(name: str = "ada-sample", role: str = "", **fields: Any) -> User:
    user = User.objects.create_user(name, password=PASSWORD, **fields)
    if role:
        user.groups.add(Group.objects.get(name=role))
    return user


def log_in(client: Client, name: str = "ada-sample", password: str = PASSWORD, **more: Any) -> Any:
    return client.post("/accounts/login/", {"username": name, "password": password}, **more)


def sign_in_recently_authenticated(client: Client, user: User) -> None:
    """Sign in without the form, with a recent authentication."""
    client.force_login(user)
    request = HttpRequest()
    request.session = client.session
    record_authentication(request, user, "password")
    request.session.save()


def code(secret: str, step: int = 0) -> str:
    """Return the code that an app shows now, or `step` times 30 seconds from now."""
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30 + step)))


def add_authenticator_app(client: Client) -> str:
    """Add an authenticator app for the signed-in person and return its secret."""
    page = client.get("/accounts/second-factor/app/").content.decode()
    found = re.search(r'class="key">([A-Z2-7]+)<', page)
    assert found, page
    answer = client.post("/accounts/second-factor/app/", {"code": code(found[1])})
    assert answer.status_code == 302, answer.content.decode()
    return found[1]


def stored_app_secret(user: User) -> str:
    data = Authenticator.objects.get(user=user, type="totp").data
    return cipher.decrypt(data["secret"], "second factor")
