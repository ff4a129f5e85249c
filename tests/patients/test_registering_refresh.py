"""Every answer of a registration survives every refresh of a fragment of its page.

Answers and triggers are the form's own fields, so a new field joins the matrix automatically.
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
from tests.patients.test_registering import REGISTER, create_patient, front_desk_user
from tests.sandboxes import Sandbox

__all__ = ["front_desk_user"]
pytestmark = pytest.mark.django_db(transaction=True)
FRAGMENTS = {
    "/patients/payors/": "payors",
    "/patients/duplicates/": "alike-found",
    "/patients/check/": "id_{}_told",
}
"""The URLs of fragments, and the IDs of the elements that they replace."""
SAMPLES = {"dob": "1980-02-29", "first_name": "Maria", "last_name": "Testperson"}
NOT_FILLED = ("form_id", "seen", "before", "before_primary", "before_secondary")


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
    """The payor search of the service."""
    settings.SERVICE_BASE_URL = sandbox.url
    service_client.service.cache_clear()
    yield
    service_client.service.cache_clear()


@pytest.mark.parametrize("address", FRAGMENTS)
def test_page_refresh_keeps_every_answer(
    client: Client, front_desk_user: User, search: None, address: str
) -> None:
    create_patient()
    page = Page(client.get(REGISTER).content.decode(), "data-person")
    page.set("payor_query", "mutual")
    page.refresh(client, "/patients/payors/", "payors", swap="innerHTML")
    fields = RegisterForm.base_fields
    answers: dict[str, str] = {}
    for name, field in fields.items():
        if name in NOT_FILLED or not page.shows(name):
            continue
        value = sample(name, field)
        if name == "payor":
            value = page.controls(name)[0].given["value"]
        elif name == "payor_query":
            value = "mutual"
        page.set(name, value)
        answers[name] = value
    assert {"payor", "payor_query", "dob", "first_name"} <= answers.keys()
    page.refresh(client, "/patients/duplicates/", "alike-found", swap="innerHTML")
    page.set("not_same", str(uid("patient", 1)))
    answers["not_same"] = str(uid("patient", 1))
    for trigger in fields:
        if trigger not in answers:
            continue
        before = answers[trigger]
        target = FRAGMENTS[address].format(trigger)
        if page.root.by_id(target) is None:
            continue
        if trigger not in ("payor", "payor_query") and before and "sample" in before:
            answers[trigger] = f"{before} "[: len(before)]
        page.refresh(client, address, target, swap="innerHTML", checked=trigger)
        values = page.values()
        for name, value in answers.items():
            assert (values.get(name) or [""])[-1] == value, f"{name} is lost by {trigger}"


def test_tick_for_duplicate_returns_with_the_name(client: Client, front_desk_user: User) -> None:
    create_patient()
    page = Page(client.get(REGISTER).content.decode(), "data-person")
    duplicate = str(uid("patient", 1))

    def set_name(first: str, last: str) -> None:
        for field, value in (("first_name", first), ("last_name", last), ("dob", "1980-02-29")):
            page.set(field, value)
        page.refresh(client, "/patients/duplicates/", "alike-found", swap="innerHTML")

    set_name("Maria", "Testperson")
    page.set("not_same", duplicate)
    set_name("Quite", "Different")
    assert not page.shows("not_same") and page.values()["not_same"] == [duplicate]
    set_name("Maria", "Testperson")
    assert page.shows("not_same") and page.values()["not_same"] == [duplicate]


def test_chosen_payor_is_kept_in_other_searches(
    client: Client, front_desk_user: User, search: None, settings: Settings
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
    assert page.values()["payor"] == [chosen], "the search does not respond"
