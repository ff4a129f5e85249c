"""Sessions end when idle and after their longest time, and only people keep them going."""

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

from backoffice.accounts.session_store import SessionStore
from backoffice.models import StaffSession
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


def ends_in() -> float:
    return StaffSession.objects.get().expire_date.timestamp() - time.time()


def asked(client: Client, **more: Any) -> tuple[int, bool]:
    told = client.get("/accounts/session/", headers=UNATTENDED, **more).json()
    return told["left"], told["fixed"]


def test_it_ends_after_a_quarter_of_an_hour_of_nothing(
    ada: Client, clock: time_machine.Traveller
) -> None:
    clock.shift(899)
    assert ada.get(PAGE).status_code == 200
    clock.shift(899)
    assert ada.get(PAGE).status_code == 200
    clock.shift(901)
    assert ada.get(PAGE).status_code == 302


def test_it_ends_after_twelve_hours_whatever_is_done(
    ada: Client, clock: time_machine.Traveller
) -> None:
    for _ in range(72):
        assert ada.get(PAGE).status_code == 200
        clock.shift(600)
    assert ada.get(PAGE).status_code == 302


def test_what_pages_ask_by_themselves_keeps_nobody_signed_in(
    ada: Client, clock: time_machine.Traveller
) -> None:
    for _ in range(9):
        clock.shift(100)
        for path in (PAGE, "/accounts/session/"):
            ada.get(path, headers=UNATTENDED)
    assert ends_in() == 0
    assert ada.get(PAGE).status_code == 302


def test_asking_costs_one_write_a_minute_and_no_other(
    ada: Client, clock: time_machine.Traveller
) -> None:
    ada.get(PAGE)

    def writes() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert ada.get(PAGE).status_code == 200
        said = [one["sql"] for one in captured if "staffsession" in one["sql"]]
        assert sum("SELECT" in one for one in said) == 1
        return len(said) - 1

    clock.shift(61)
    assert [writes() for _ in range(4)] == [1, 0, 0, 0]
    clock.shift(59)
    assert writes() == 0
    clock.shift(2)
    assert writes() == 1
    assert ends_in() == 900


def test_a_page_learns_how_long_is_left_and_can_go_on(
    ada: Client, clock: time_machine.Traveller
) -> None:
    clock.shift(780)
    assert asked(ada) == (120, False)
    assert ada.post("/accounts/session/", headers=UNATTENDED).json()["left"] == 900
    assert asked(ada) == (900, False)
    clock.shift(700)
    # Somebody typed on the page a while ago, and nothing was sent.
    told = ada.post("/accounts/session/", {"idle": "300"}, headers=UNATTENDED).json()
    assert told["left"] == 600
    for nonsense in ("-900", "1e9", "٣", ""):
        ada.post("/accounts/session/", {"idle": nonsense}, headers=UNATTENDED)
        assert asked(ada)[0] == 900
    ada.post("/accounts/session/", {"idle": "800"}, headers=UNATTENDED)
    assert asked(ada)[0] == 900  # never sooner than before


def test_the_longest_time_cannot_be_put_off(ada: Client, clock: time_machine.Traveller) -> None:
    for _ in range(71):
        clock.shift(600)
        ada.get(PAGE)
    clock.shift(500)
    assert asked(ada) == (100, True)
    told = ada.post("/accounts/session/", headers=UNATTENDED).json()
    assert (told["left"], told["fixed"]) == (100, True)


def test_an_ended_session_says_so_and_nothing_else(
    ada: Client, clock: time_machine.Traveller
) -> None:
    clock.shift(901)
    answer = ada.get("/accounts/session/")
    assert (answer.status_code, answer.json()) == (401, {"left": 0})
    assert "no-store" in answer["Cache-Control"]


def test_the_token_it_tells_is_good_for_forms(settings: Settings) -> None:
    person()
    client = Client(enforce_csrf_checks=True)
    token = client.get("/accounts/login/").context["csrf_token"]
    log_in(client, headers={"x-csrftoken": str(token)})
    form = {"theme": "dark", "density": "default", "time_zone": "UTC"}
    old = {**form, "csrfmiddlewaretoken": str(token)}
    assert client.post(PAGE, old).status_code == 403
    fresh = client.get("/accounts/session/").json()["token"]
    assert client.post(PAGE, {**form, "csrfmiddlewaretoken": fresh}).status_code == 302


def test_a_session_that_was_ended_is_not_written_back(
    ada: Client, clock: time_machine.Traveller
) -> None:
    clock.shift(300)
    store = SessionStore(StaffSession.objects.get().session_key)
    assert store["began"]
    StaffSession.objects.all().delete()
    assert ada.get(PAGE).status_code == 302
    assert not StaffSession.objects.exists()


def test_a_form_of_the_log_in_may_stand_open_for_long(
    client: Client, clock: time_machine.Traveller
) -> None:
    client.get("/accounts/login/")
    assert ends_in() == 12 * 3600


def test_pages_carry_how_long_is_left(ada: Client, clock: time_machine.Traveller) -> None:
    page = ada.get(PAGE).content.decode()
    assert 'data-left="900"' in page and 'data-warned="120"' in page
    ada.post("/accounts/logout/")
    assert 'id="session"' not in ada.get("/accounts/login/").content.decode()
