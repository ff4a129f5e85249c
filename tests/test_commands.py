"""Commands of manage.py: what they print, and what they keep quiet about."""

from __future__ import annotations

import logging
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper
from django.test import Client

from backoffice.api.models import ApiToken
from backoffice.management.commands.sync import Bar, warnings_only


def createtoken(*arguments: str) -> tuple[str, str]:
    """The token, and what was said before it."""
    out, said = StringIO(), StringIO()
    call_command("createtoken", *arguments, stdout=out, stderr=said)
    return out.getvalue().rstrip("\n").rpartition("\n")[2], said.getvalue()


def status(client: Client, token: str) -> int:
    return client.get("/api/labs/", headers={"Authorization": f"Token {token}"}).status_code


@pytest.mark.django_db(transaction=True)
def test_earlier_tokens_stay_valid_and_are_told_until_they_are_revoked(client: Client) -> None:
    others, _ = createtoken("other")
    first, said = createtoken("reporting")
    assert said.startswith("Made the service account reporting.\n")
    second, said = createtoken("reporting")
    assert said.startswith("1 earlier token of reporting: still valid (--revoke ends them).\n")
    assert [status(client, token) for token in (first, second)] == [200, 200]
    third, said = createtoken("reporting", "--revoke")
    assert said.startswith("2 earlier tokens of reporting: revoked.\n")
    assert [status(client, token) for token in (first, second, third)] == [401, 401, 200]
    assert status(client, others) == 200
    assert ApiToken.objects.filter(revoked_at=None).count() == 2


def test_requests_stay_off_the_bar_and_warnings_do_not() -> None:
    client = logging.getLogger("backoffice.service")
    assert client.isEnabledFor(logging.INFO)
    with warnings_only():
        assert not client.isEnabledFor(logging.INFO)
        assert client.isEnabledFor(logging.WARNING)
    assert client.isEnabledFor(logging.INFO)


@pytest.mark.parametrize(("total", "shown"), [(137, False), (600, True), (None, False)])
def test_the_bar_shows_no_total_smaller_than_its_rows(total: int | None, shown: bool) -> None:
    out = StringIO()
    bar = Bar(OutputWrapper(out), "orders")
    bar.live = True
    bar.shown -= 1
    bar.show(600, total)
    assert "600" in out.getvalue()
    assert (" of " in out.getvalue()) is shown
