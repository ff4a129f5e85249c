"""Commands of manage.py: what they print and what they hide."""

from __future__ import annotations

import logging
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper
from django.test import Client

from backoffice.api.models import ApiToken
from backoffice.management.commands.sync import Bar, warnings_only


def create_token(*arguments: str) -> tuple[str, str]:
    """Return the token and the messages printed before it."""
    out, messages = StringIO(), StringIO()
    call_command("createtoken", *arguments, stdout=out, stderr=messages)
    return out.getvalue().rstrip("\n").rpartition("\n")[2], messages.getvalue()


def status(client: Client, token: str) -> int:
    return client.get("/api/labs/", headers={"Authorization": f"Token {token}"}).status_code


@pytest.mark.django_db(transaction=True)
def test_earlier_tokens_are_listed_until_revoked(client: Client) -> None:
    others, _ = create_token("other")
    first, messages = create_token("reporting")
    assert messages.startswith("Created the service account reporting.\n")
    second, messages = create_token("reporting")
    assert messages.startswith(
        "1 earlier token of reporting: still valid (use --revoke to end them).\n"
    )
    assert [status(client, token) for token in (first, second)] == [200, 200]
    third, messages = create_token("reporting", "--revoke")
    assert messages.startswith("2 earlier tokens of reporting: revoked.\n")
    assert [status(client, token) for token in (first, second, third)] == [401, 401, 200]
    assert status(client, others) == 200
    assert ApiToken.objects.filter(revoked_at=None).count() == 2


def test_progress_bar_hides_requests_but_not_warnings() -> None:
    client = logging.getLogger("backoffice.service")
    assert client.isEnabledFor(logging.INFO)
    with warnings_only():
        assert not client.isEnabledFor(logging.INFO)
        assert client.isEnabledFor(logging.WARNING)
    assert client.isEnabledFor(logging.INFO)


@pytest.mark.parametrize(("total", "shown"), [(137, False), (600, True), (None, False)])
def test_progress_bar_hides_total_smaller_than_rows(total: int | None, shown: bool) -> None:
    out = StringIO()
    bar = Bar(OutputWrapper(out), "orders")
    bar.live = True
    bar.shown_at -= 1
    bar.show(600, total)
    assert "600" in out.getvalue()
    assert (" of " in out.getvalue()) is shown
