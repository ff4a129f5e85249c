"""Sessions end when idle and after their maximum time; only people keep them alive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from backoffice.accounts.models import StaffSession
from backoffice.accounts.session_store import SessionStore
from tests.accounts.people import log_in, person

pytestmark = pytest.mark.django_db
PAGE = "/preferences/"
NOON = "2026-11-22T12:00:00Z"
UNATTENDED = {"x-unattended": "1"}


@pytest.fixture
def clock(settings: Settings) -> Iterator[time_machine.Traveller]:
    settings.SESSION_IDLE_SECONDS, settings.SESSION_COOKIE_AGE = 900, 12 * 3600
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


@pytest.fixture
def ada(client: Client, clock: time_machine.Traveller) -> Client:
    person()
    log_in(client)
    return client


def seconds_until_expiry() -> float:
    return StaffSession.objects.get().expire_date.timestamp() - time.time()


def session_status(client: Client, **more: Any) -> tuple[int, bool]:
    status = client.get("/accounts/session/", headers=UNATTENDED, **more).json()
    return status["left"], status["fixed"]


def test_session_ends_after_15_idle_minutes(ada: Client, clock: time_machine.Traveller) -> None:
    clock.shift(899)
    assert ada.get(PAGE).status_code == 200
    clock.shift(899)
    assert ada.get(PAGE).status_code == 200
    clock.shift(901)
    assert ada.get(PAGE).status_code == 302


def test_session_ends_after_twelve_hours_of_activity(
    ada: Client, clock: time_machine.Traveller
) -> None:
    for _ in range(72):
        assert ada.get(PAGE).status_code == 200
        clock.shift(600)
    assert ada.get(PAGE).status_code == 302


def test_unattended_requests_do_not_extend_session(
    ada: Client, clock: time_machine.Traveller
) -> None:
    for _ in range(9):
        clock.shift(100)
        for path in (PAGE, "/accounts/session/"):
            ada.get(path, headers=UNATTENDED)
    assert seconds_until_expiry() == 0
    assert ada.get(PAGE).status_code == 302


def test_session_is_written_at_most_once_a_minute(
    ada: Client, clock: time_machine.Traveller
) -> None:
    ada.get(PAGE)

    def count_writes() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert ada.get(PAGE).status_code == 200
        statements = [one["sql"] for one in captured if "staffsession" in one["sql"]]
        assert sum("SELECT" in one for one in statements) == 1
        return len(statements) - 1

    clock.shift(61)
    assert [count_writes() for _ in range(4)] == [1, 0, 0, 0]
    clock.shift(59)
    assert count_writes() == 0
    clock.shift(2)
    assert count_writes() == 1
    assert seconds_until_expiry() == 900


def test_page_reads_and_extends_remaining_time(ada: Client, clock: time_machine.Traveller) -> None:
    clock.shift(780)
    assert session_status(ada) == (120, False)
    assert ada.post("/accounts/session/", headers=UNATTENDED).json()["left"] == 900
    assert session_status(ada) == (900, False)
    clock.shift(700)
    # The person typed on the page a while ago, and no request was sent.
    status = ada.post("/accounts/session/", {"idle": "300"}, headers=UNATTENDED).json()
    assert status["left"] == 600
    for invalid_value in ("-900", "1e9", "٣", ""):
        ada.post("/accounts/session/", {"idle": invalid_value}, headers=UNATTENDED)
        assert session_status(ada)[0] == 900
    ada.post("/accounts/session/", {"idle": "800"}, headers=UNATTENDED)
    assert session_status(ada)[0] == 900  # never earlier than before


def test_maximum_session_time_cannot_be_extended(
    ada: Client, clock: time_machine.Traveller
) -> None:
    for _ in range(71):
        clock.shift(600)
        ada.get(PAGE)
    clock.shift(500)
    assert session_status(ada) == (100, True)
    status = ada.post("/accounts/session/", headers=UNATTENDED).json()
    assert (status["left"], status["fixed"]) == (100, True)


def test_ended_session_answers_401_with_no_time_left(
    ada: Client, clock: time_machine.Traveller
) -> None:
    clock.shift(901)
    answer = ada.get("/accounts/session/")
    assert (answer.status_code, answer.json()) == (401, {"left": 0})
    assert "no-store" in answer["Cache-Control"]


def test_token_of_session_status_is_valid_for_forms(settings: Settings) -> None:
    person()
    client = Client(enforce_csrf_checks=True)
    token = client.get("/accounts/login/").context["csrf_token"]
    log_in(client, headers={"x-csrftoken": str(token)})
    form = {"theme": "dark", "density": "default", "time_zone": "UTC"}
    form |= {"language": "en", "day_first": "False", "hours_24": "False"}
    old_form = {**form, "csrfmiddlewaretoken": str(token)}
    assert client.post(PAGE, old_form).status_code == 403
    current_token = client.get("/accounts/session/").json()["token"]
    assert client.post(PAGE, {**form, "csrfmiddlewaretoken": current_token}).status_code == 302


def test_ended_session_is_not_saved_again(ada: Client, clock: time_machine.Traveller) -> None:
    clock.shift(300)
    store = SessionStore(StaffSession.objects.get().session_key)
    assert store["began"]
    StaffSession.objects.all().delete()
    assert ada.get(PAGE).status_code == 302
    assert not StaffSession.objects.exists()


def test_log_in_form_stays_valid_for_twelve_hours(
    client: Client, clock: time_machine.Traveller
) -> None:
    client.get("/accounts/login/")
    assert seconds_until_expiry() == 12 * 3600


def test_pages_contain_remaining_session_time(ada: Client, clock: time_machine.Traveller) -> None:
    page = ada.get(PAGE).content.decode()
    assert 'data-left="900"' in page and 'data-warned="120"' in page
    ada.post("/accounts/logout/")
    assert 'id="session"' not in ada.get("/accounts/login/").content.decode()
