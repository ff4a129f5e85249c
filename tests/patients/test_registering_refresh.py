"""Every answer of a registration outlives every refresh of a part of its page.

Answers and triggers are the form's own fields, so a new field is part of the matrix by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from django import forms
from django.test import Client
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.core import service_client
from patients.registration_forms import RegisterForm
from tests.api.rows import uid
from tests.dom import Page
from tests.patients.test_registering import REGISTER, desk, somebody
from tests.sandboxes import Sandbox

__all__ = ["desk"]
pytestmark = pytest.mark.django_db(transaction=True)
FRAGMENTS = {
    "/patients/payors/": "payors",
    "/patients/duplicates/": "alike-found",
    "/patients/check/": "id_{}_told",
}
"""What is refreshed, and what of the page it replaces."""
SAMPLES = {"dob": "1980-02-29", "first_name": "Maria", "last_name": "Testperson"}
NOT_ANSWERED = ("form_id", "seen", "before", "before_primary", "before_secondary")


def sample(name: str, field: forms.Field) -> str:
    if name in SAMPLES:
        return SAMPLES[name]
    if isinstance(field, forms.BooleanField):
        return "" if field.initial else "on"
    if isinstance(field, forms.ChoiceField):
        return str(cast(list[tuple[str, str]], field.choices)[-1][0])
    return f"sample of {name}"[: getattr(field, "max_length", None) or 40]


@pytest.fixture
def search(settings: Settings, sandbox: Sandbox) -> Iterator[None]:
    """The service's search for payors."""
    settings.SERVICE_BASE_URL = sandbox.url
    service_client.service.cache_clear()
    yield
    service_client.service.cache_clear()


@pytest.mark.parametrize("address", FRAGMENTS)
def test_page_refresh_keeps_every_answer(
    client: Client, desk: User, search: None, address: str
) -> None:
    somebody()
    page = Page(client.get(REGISTER).content.decode(), "data-person")
    page.set("payor_query", "mutual")
    page.refresh(client, "/patients/payors/", "payors", swap="innerHTML")
    fields = RegisterForm.base_fields
    given: dict[str, str] = {}
    for name, field in fields.items():
        if name in NOT_ANSWERED or not page.shows(name):
            continue
        value = sample(name, field)
        if name == "payor":
            value = page.controls(name)[0].given["value"]
        elif name == "payor_query":
            value = "mutual"
        page.set(name, value)
        given[name] = value
    assert {"payor", "payor_query", "dob", "first_name"} <= given.keys()
    page.refresh(client, "/patients/duplicates/", "alike-found", swap="innerHTML")
    page.set("not_same", str(uid("patient", 1)))
    given["not_same"] = str(uid("patient", 1))
    for trigger in fields:
        if trigger not in given:
            continue
        before = given[trigger]
        target = FRAGMENTS[address].format(trigger)
        if page.root.by_id(target) is None:
            continue
        if trigger not in ("payor", "payor_query") and before and "sample" in before:
            given[trigger] = f"{before} "[: len(before)]
        page.refresh(client, address, target, swap="innerHTML", checked=trigger)
        values = page.values()
        for name, value in given.items():
            assert (values.get(name) or [""])[-1] == value, f"{name} is lost by {trigger}"


def test_tick_for_duplicate_returns_with_the_name(client: Client, desk: User) -> None:
    somebody()
    page = Page(client.get(REGISTER).content.decode(), "data-person")
    them = str(uid("patient", 1))

    def name(first: str, last: str) -> None:
        for field, value in (("first_name", first), ("last_name", last), ("dob", "1980-02-29")):
            page.set(field, value)
        page.refresh(client, "/patients/duplicates/", "alike-found", swap="innerHTML")

    name("Maria", "Testperson")
    page.set("not_same", them)
    name("Quite", "Different")
    assert not page.shows("not_same") and page.values()["not_same"] == [them]
    name("Maria", "Testperson")
    assert page.shows("not_same") and page.values()["not_same"] == [them]


def test_chosen_payor_is_kept_in_other_searches(
    client: Client, desk: User, search: None, settings: Settings
) -> None:
    page = Page(client.get(REGISTER).content.decode(), "data-person")
    page.set("payor_query", "mutual")
    page.refresh(client, "/patients/payors/", "payors", swap="innerHTML")
    chosen: Any = page.controls("payor")[0].given["value"]
    page.set("payor", chosen)
    for text in ("zzz-nobody", "ab", "", "mutual"):
        page.set("payor_query", text)
        page.refresh(client, "/patients/payors/", "payors", swap="innerHTML")
        assert page.values()["payor"] == [chosen], text
    settings.SERVICE_BASE_URL = "http://127.0.0.1:9"
    service_client.service.cache_clear()
    page.refresh(client, "/patients/payors/", "payors", swap="innerHTML")
    assert page.values()["payor"] == [chosen], "the search does not answer"
