"""Guessing takes long, for accounts that exist and for others, and keeps no owner out."""

from __future__ import annotations

import time

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from backoffice.accounts import throttle
from backoffice.accounts.throttle import ThrottleBucket
from backoffice.models import AuditEntry, Throttle
from tests import hashing
from tests.accounts.people import PASSWORD, log_in, person

pytestmark = pytest.mark.django_db
ADDRESSES = 200
WORDS = "Too many attempts"


@pytest.fixture(autouse=True)
def quick(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buckets are tried with hundreds of guesses; how long one takes is tried by itself."""
    if "neither_time" in request.node.name:
        hashing.works(monkeypatch, hashing.REAL)
    else:
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def later(seconds: int) -> None:
    """As if this much time had passed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE backoffice_throttle SET free_at = free_at - make_interval(secs => %s)",
            [seconds],
        )


def guess(n: int, name: str = "ada-sample", password: str = "") -> int:
    """From one of two hundred addresses, each time by another browser."""
    address = f"198.51.100.{n % ADDRESSES}"
    return int(log_in(Client(), name, password or f"guess {n}", REMOTE_ADDR=address).status_code)


def test_twenty_guesses_of_an_hour_are_evaluated_wherever_they_come_from() -> None:
    person()
    owner = Client()
    log_in(owner)
    owner.post("/accounts/logout/")
    evaluated = 0
    for n in range(360):
        evaluated += guess(n) == 200
        if n % 6 == 5:
            later(60)
    assert 15 <= evaluated <= 20
    refused = AuditEntry.objects.filter(action="login", outcome="refused")
    assert refused.filter(reason="").count() == evaluated
    # Told once a minute, not for each of them.
    assert 0 < refused.filter(reason="too many attempts").count() < 80
    # The right password among them is not evaluated either,
    while guess(8) == 200:
        pass
    assert guess(7, password=PASSWORD) == 429
    # and its owner gets in where they did before, however busy the strangers are.
    assert WORDS in log_in(Client(), REMOTE_ADDR="203.0.113.9").content.decode()
    assert log_in(owner, REMOTE_ADDR="203.0.113.9").status_code == 302
    later(240)
    assert log_in(Client(), REMOTE_ADDR="203.0.113.9").status_code == 302


def test_names_that_do_not_exist_are_counted_alike() -> None:
    person()
    for name in ("ada-sample", "nobody-here"):
        assert [guess(n, name) for n in range(8)] == [200] * 5 + [429] * 3


def test_an_address_that_tries_many_names_is_slowed_down() -> None:
    address = "198.51.100.7"
    while throttle.ADDRESSES.try_acquire(address):
        pass
    assert log_in(Client(), "name-1", "x", REMOTE_ADDR=address).status_code == 429
    assert log_in(Client(), "name-1", "x", REMOTE_ADDR="198.51.100.8").status_code == 200


def test_forwarded_addresses_are_believed_only_of_our_proxy(settings: Settings) -> None:
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


def test_log_ins_that_succeed_count_for_nothing() -> None:
    person()
    for _ in range(12):
        assert log_in(Client()).status_code == 302
    assert guess(1) == 200


def test_neither_time_nor_words_tell_whether_there_is_such_an_account() -> None:
    person()
    took: dict[str, list[float]] = {"ada-sample": [], "nobody-here": []}
    pages: dict[str, str] = {}
    for n in range(16):
        for name in took:
            Throttle.objects.all().delete()
            client = Client()
            client.get("/accounts/login/")
            began = time.perf_counter()
            answer = log_in(client, name, f"guess {n}")
            took[name].append(time.perf_counter() - began)
            pages[name] = answer.content.decode().replace(name, "")
    known, unknown = (min(times) for times in took.values())
    assert abs(known - unknown) / max(known, unknown) < 0.2, (known, unknown)
    assert without_token(pages["ada-sample"]) == without_token(pages["nobody-here"])


def without_token(page: str) -> str:
    return "".join(line for line in page.splitlines() if "csrfmiddlewaretoken" not in line)


def test_a_bucket_empties_with_time_and_is_forgotten_when_empty() -> None:
    bucket = ThrottleBucket("sample", 2, 100)
    assert [bucket.try_acquire("a") for _ in range(3)] == [True, True, False]
    assert bucket.try_acquire("b")
    later(99)
    assert not bucket.try_acquire("a")
    later(1)
    assert bucket.try_acquire("a") and not bucket.try_acquire("a")
    bucket.release("a")
    assert bucket.try_acquire("a")
    throttle.delete_empty_buckets()
    assert Throttle.objects.count() == 1  # b is empty again
    later(500)
    throttle.delete_empty_buckets()
    assert not Throttle.objects.exists()


@pytest.mark.parametrize(
    ("ip", "network"),
    [("198.51.100.7", "198.51.100.7"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("", "")],
)
def test_an_address_of_the_newer_kind_counts_as_its_network(ip: str, network: str) -> None:
    assert throttle.network_prefix(ip) == network


def test_a_known_device_opens_nothing_for_other_names() -> None:
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
