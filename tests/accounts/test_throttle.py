"""Password guesses are throttled for existing and unknown names; owners can still sign in."""

from __future__ import annotations

import time

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from backoffice.accounts import throttle
from backoffice.accounts.models import Throttle
from backoffice.accounts.throttle import ThrottleBucket
from backoffice.audit.models import AuditEntry
from tests import password_hashing
from tests.accounts.people import PASSWORD, log_in, person

pytestmark = pytest.mark.django_db
ADDRESS_COUNT = 200
THROTTLED_MESSAGE = "Too many attempts"


@pytest.fixture(autouse=True)
def quick_hashing(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use a quick hasher: buckets are tested with hundreds of guesses.

    One test measures real time.
    """
    if "same_time" in request.node.name:
        password_hashing.set_cost(monkeypatch, password_hashing.PRODUCTION)
    else:
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def advance_time(seconds: int) -> None:
    """Shift the buckets as if this much time had passed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE accounts_throttle SET free_at = free_at - make_interval(secs => %s)",
            [seconds],
        )


def guess(n: int, name: str = "ada-sample", password: str = "") -> int:
    """Guess from one of two hundred addresses, each time with another browser."""
    address = f"198.51.100.{n % ADDRESS_COUNT}"
    return int(log_in(Client(), name, password or f"guess {n}", REMOTE_ADDR=address).status_code)


def test_twenty_guesses_an_hour_are_evaluated() -> None:
    person()
    owner = Client()
    log_in(owner)
    owner.post("/accounts/logout/")
    evaluated = 0
    for n in range(360):
        evaluated += guess(n) == 200
        if n % 6 == 5:
            advance_time(60)
    assert 15 <= evaluated <= 20
    refusals = AuditEntry.objects.filter(action="login", outcome="refused")
    assert refusals.filter(reason="").count() == evaluated
    # Refusals are recorded once a minute, not for each guess.
    assert 0 < refusals.filter(reason="too many attempts").count() < 80
    # The right password is not evaluated either after too many guesses.
    while guess(8) == 200:
        pass
    assert guess(7, password=PASSWORD) == 429
    # Its owner can sign in from a known device, however many guesses others send.
    assert THROTTLED_MESSAGE in log_in(Client(), REMOTE_ADDR="203.0.113.9").content.decode()
    assert log_in(owner, REMOTE_ADDR="203.0.113.9").status_code == 302
    advance_time(240)
    assert log_in(Client(), REMOTE_ADDR="203.0.113.9").status_code == 302


def test_unknown_names_are_throttled_the_same_way() -> None:
    person()
    for name in ("ada-sample", "nobody-here"):
        assert [guess(n, name) for n in range(8)] == [200] * 5 + [429] * 3


def test_address_that_tries_many_names_is_throttled() -> None:
    address = "198.51.100.7"
    while throttle.ADDRESSES.try_acquire(address):
        pass
    assert log_in(Client(), "name-1", "x", REMOTE_ADDR=address).status_code == 429
    assert log_in(Client(), "name-1", "x", REMOTE_ADDR="198.51.100.8").status_code == 200


def test_forwarded_address_is_trusted_only_behind_proxy(settings: Settings) -> None:
    while throttle.ADDRESSES.try_acquire("127.0.0.1"):
        pass
    forged = {"x-forwarded-for": "203.0.113.99"}
    assert log_in(Client(), "name-1", "x", headers=forged).status_code == 429
    settings.BEHIND_PROXY = True
    assert log_in(Client(), "name-1", "x", headers=forged).status_code == 200
    while throttle.ADDRESSES.try_acquire("203.0.113.99"):
        pass
    forged = {"x-forwarded-for": "203.0.113.1, 203.0.113.99"}
    assert log_in(Client(), "name-1", "x", headers=forged).status_code == 429


def test_successful_log_ins_are_not_counted() -> None:
    person()
    for _ in range(12):
        assert log_in(Client()).status_code == 302
    assert guess(1) == 200


def test_unknown_names_take_same_time_and_show_same_page() -> None:
    person()
    durations: dict[str, list[float]] = {"ada-sample": [], "nobody-here": []}
    pages: dict[str, str] = {}
    for n in range(16):
        for name in durations:
            Throttle.objects.all().delete()
            client = Client()
            client.get("/accounts/login/")
            began = time.perf_counter()
            answer = log_in(client, name, f"guess {n}")
            durations[name].append(time.perf_counter() - began)
            pages[name] = answer.content.decode().replace(name, "")
    known, unknown = (min(times) for times in durations.values())
    assert abs(known - unknown) / max(known, unknown) < 0.2, (known, unknown)
    assert without_token(pages["ada-sample"]) == without_token(pages["nobody-here"])


def without_token(page: str) -> str:
    return "".join(line for line in page.splitlines() if "csrfmiddlewaretoken" not in line)


def test_bucket_empties_with_time_and_is_deleted() -> None:
    bucket = ThrottleBucket("sample", 2, 100)
    assert [bucket.try_acquire("a") for _ in range(3)] == [True, True, False]
    assert bucket.try_acquire("b")
    advance_time(99)
    assert not bucket.try_acquire("a")
    advance_time(1)
    assert bucket.try_acquire("a") and not bucket.try_acquire("a")
    bucket.release("a")
    assert bucket.try_acquire("a")
    throttle.delete_empty_buckets()
    assert Throttle.objects.count() == 1  # b is empty again
    advance_time(500)
    throttle.delete_empty_buckets()
    assert not Throttle.objects.exists()


@pytest.mark.parametrize(
    ("ip", "network"),
    [("198.51.100.7", "198.51.100.7"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("", "")],
)
def test_ipv6_address_counts_as_its_network(ip: str, network: str) -> None:
    assert throttle.network_prefix(ip) == network


def test_known_device_helps_only_its_own_account() -> None:
    person()
    person("eve-sample")
    eve = Client()
    log_in(eve, "eve-sample")
    eve.post("/accounts/logout/")
    for n in range(5):
        guess(n)
    assert log_in(eve, REMOTE_ADDR="203.0.113.9").status_code == 429
    eve.cookies["bo-device"] = eve.cookies["bo-device"].value[:-3] + "abc"
    assert log_in(eve, "eve-sample", "x", REMOTE_ADDR="203.0.113.9").status_code == 200
