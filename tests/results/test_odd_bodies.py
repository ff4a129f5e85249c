"""Whole answers of odd shapes: either a result is stored with every line in its place, or the
look-up is tried again and every page says so. Never a clean end without a result, never a false
normal."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from backoffice.mirror.models import UnreadRecord
from backoffice.operations import status
from backoffice.sync.models import Lookup
from orders.models import Order, Result, ResultMarker, Review
from tests.api.rows import staff
from tests.results.test_over_the_wire import glucose_body, words
from tests.sandbox_service import look_up
from tests.sandboxes import Sandbox

pytestmark = pytest.mark.django_db(transaction=True)

NESTED = "[" * 500 + "]" * 500


def line(**changes: Any) -> str:
    return json.dumps(glucose_body(**changes))


def head(**changes: Any) -> str:
    body = glucose_body()
    body["metadata"] |= changes
    return json.dumps(body)


def replaced(old: str, new: str) -> str:
    text = line()
    assert old in text
    return text.replace(old, new)


READ = {
    "lone surrogate": (line(notes="half \ud83d pair"), "normal"),
    "lone surrogate in the word": (line(interpretation="nor\udc00mal"), "unknown"),
    "NUL in the name": (line(name="Glu\0cose"), "normal"),
    "a value turned around": (line(value="4\u202e10", interpretation="nor\u202emal"), "unknown"),
    "NUL in the word": (line(interpretation="normal\0"), "unknown"),
    "NUL in the lab's flag": (line(source_interpretation="\0"), "unknown"),
    "control characters": (replaced('"Glucose"', '"Glu\x01\x0bcose"'), "normal"),
    "NaN": (replaced('"value": 80', '"value": NaN'), "unknown"),
    "infinite range": (replaced('"max_range_value": 99', '"max_range_value": 1e999'), "unknown"),
    "huge number": (line(value=10**400), "unknown"),
    "nested too deep": (replaced('"notes": null', f'"notes": {NESTED}'), "unknown"),
    "long word": (line(interpretation="x" * 5000), "unknown"),
    "long slug": (line(slug="x" * 9000, loinc_slug="y" * 9000), None),
    "word as a list": (line(interpretation=["normal"]), "normal"),
    "word as a flag": (line(interpretation=True), "unknown"),
    "times that are none": (line(timestamp="0000-00-00T99:99"), "normal"),
    "all that is optional as objects": (
        line(unit={}, notes={}, reference_range={}, loinc={}, provider_id={}, source_markers={}),
        "unknown",
    ),
    "numbers as text": (
        line(value="80", min_range_value="70", max_range_value="99"),
        "normal",
    ),
    "head without words": (head(patient=None, dob=None, age=None, laboratory=None), "normal"),
    "head of other types": (head(patient=[1], dob={}, age=[], laboratory=7), "normal"),
    "specimen as a number": (head(specimen_number=123), "normal"),
}
LOST = {
    "no results": json.dumps({"metadata": {}}),
    "results as text": json.dumps({**glucose_body(), "results": "none"}),
    "results as null": json.dumps({**glucose_body(), "results": None}),
    "head as null": json.dumps({**glucose_body(), "metadata": None}),
    "head as text": json.dumps({**glucose_body(), "metadata": "final"}),
    "a list": json.dumps([glucose_body()]),
    "null": "null",
    "text": '"normal"',
    "cut off": line()[:-40],
    "empty": "",
}


def answer(world: Sandbox, key: UUID, body: str) -> None:
    world.prepare_answer(f"^/v3/order/{key}/result$", body=body, times=1)
    look_up("results", key)


def pages(client: Client, key: UUID) -> dict[str, str]:
    patient = Order.objects.get(pk=key).user_id
    return {
        "report": words(client, "reviewing:report", key),
        "queue": words(client, "reviewing:queue"),
        "order": words(client, "orders:detail", key),
        "patient": words(client, "of-patient:results", patient),
    }


@pytest.fixture
def clinician(world: Sandbox, key: UUID) -> Client:
    look_up("users", Order.objects.get(pk=key).user_id)
    client = Client()
    client.force_login(staff("clinician"))
    return client


@pytest.mark.parametrize(("body", "reading"), READ.values(), ids=READ)
def test_odd_body_is_stored_with_its_line(
    world: Sandbox, key: UUID, clinician: Client, body: str, reading: str | None
) -> None:
    answer(world, key, body)
    lookup = Lookup.objects.get(kind="results")
    assert (lookup.error, lookup.attempts) == ("", 0)
    marker = ResultMarker.objects.get(result_id=key)
    assert reading is None or marker.interpretation == reading
    assert (Review.objects.get(pk=key).rank > 1) == (
        Result.objects.get().interpretation == "normal"
    )
    result = Result.objects.get(pk=key)
    for page, text in pages(clinician, key).items():
        assert "\0" not in text, page
        if page in ("report", "order"):
            assert ("Part of this result could not be read" in text) == (not result.is_whole), page
            assert reading != "unknown" or "Not interpreted" in text, page


@pytest.mark.parametrize("body", LOST.values(), ids=LOST)
def test_unreadable_body_is_retried_and_shown_on_every_page(
    world: Sandbox, key: UUID, clinician: Client, body: str
) -> None:
    answer(world, key, line())
    answer(world, key, body)
    lookup = Lookup.objects.get(kind="results")
    assert lookup.error and lookup.attempts == 1 and lookup.due_at is not None
    assert ResultMarker.objects.get(result_id=key).interpretation == "normal"
    newer = "A newer version of this result could not be read"
    for page, text in pages(clinician, key).items():
        assert newer in text and "Try again" in text, page
    reasons = " ".join(reason.words for reason in status.read().reasons)
    assert "could not be read" in reasons
    answer(world, key, line())
    assert not UnreadRecord.objects.exists()
    assert newer not in pages(clinician, key)["report"]
