"""Search for diagnosis codes at the sandbox while an order is written (users.md 6)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from backoffice.outbox.models import CommandRecord
from labs.models import LabTest
from orders.models import Order, OrderDraft
from orders.placing.diagnoses import USED_KEY, DiagnosisChoice, used_codes
from patients.models import Demographics
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_placing import confirm_review, form_values, send_form

SEARCH = "/v3/insurance/search/diagnosis$"
LOOKUP_FAILED = "Codes could not be looked up"


@pytest.fixture(autouse=True)
def empty_code_cache() -> Iterator[None]:
    """Clear the cached codes of other tests."""
    cache.delete(USED_KEY)
    yield
    cache.delete(USED_KEY)


def set_order_codes(*codes: Sequence[str]) -> None:
    """Give these codes to the newest orders, newest first, and none to all others."""
    for order in Order.objects.all():
        order.record = json.dumps({**order.record_at(), "icd_codes": None})
        order.save(update_fields=["record"])
    newest = Order.objects.order_by("-created_at", "-pk")[: len(codes)]
    for order, order_codes in zip(newest, codes, strict=True):
        order.record = json.dumps({**order.record_at(), "icd_codes": order_codes})
        order.save(update_fields=["record"])
    cache.delete(USED_KEY)


def search_codes(client: Client, query: str, chosen: str = "") -> Any:
    values = {"diagnosis": query, "icd_codes": chosen}
    response: Any = client.post(reverse("orders:diagnoses"), values)
    assert response.status_code == 200
    return response


def matches(response: Any) -> list[DiagnosisChoice]:
    return list(response.context["matches"].choices)


def test_search_by_description_finds_codes(harness: OutboxHarness) -> None:
    set_order_codes()
    response = search_codes(harness.client("clinician"), "hyperlip")
    assert [one.code for one in matches(response)] == ["E78.5"]
    page = response.content.decode()
    assert 'value="E78.5"' in page and "Hyperlipidemia, unspecified" in page


def test_search_by_code_prefix_finds_codes(harness: OutboxHarness) -> None:
    set_order_codes()
    codes = [one.code for one in matches(search_codes(harness.client("clinician"), "e11"))]
    assert codes == ["E11.9"]


def test_search_lists_used_codes_first(harness: OutboxHarness) -> None:
    client = harness.client("clinician")
    set_order_codes(["E78.5"], ["I10", "E78.5"])
    codes = matches(search_codes(client, "e78"))
    assert [(one.code, one.uses) for one in codes] == [("E78.5", 2), ("E78.00", 0)]
    set_order_codes(["E78.00"])
    codes = matches(search_codes(client, "e78"))
    assert [one.code for one in codes] == ["E78.00", "E78.5"]


def test_search_lists_exact_code_before_used_codes(harness: OutboxHarness) -> None:
    set_order_codes(["E78.5"])
    harness.sandbox.query(
        'INSERT INTO sandbox_diagnosiscode (code, description, is_secondary, excludes, "overlaps")'
        " VALUES ('E78', 'Disorders of lipoprotein metabolism', false, '{}', '{}') RETURNING code"
    )
    codes = [one.code for one in matches(search_codes(harness.client("clinician"), "e78"))]
    assert codes == ["E78", "E78.5", "E78.00"]


def test_empty_search_lists_most_used_codes(harness: OutboxHarness) -> None:
    set_order_codes(["I10"], ["E55.9"], ["E55.9"], ["D64.9"])
    response = search_codes(harness.client("clinician"), "", chosen="d64.9")
    assert [(one.code, one.uses) for one in matches(response)] == [("E55.9", 2), ("I10", 1)]
    assert "Vitamin D deficiency, unspecified" in response.content.decode()
    assert "2 recent orders" in response.content.decode()


def test_invalid_codes_of_orders_are_not_counted(harness: OutboxHarness) -> None:
    set_order_codes(["I10", 7], ["x" * 40, "e55.9"], [])  # type: ignore[list-item]
    assert used_codes() == {"E55.9": 1}


def test_search_without_matches_says_so(harness: OutboxHarness) -> None:
    set_order_codes()
    page = search_codes(harness.client("clinician"), "no such thing").content.decode()
    assert "No code matches" in page and "no such thing" in page and LOOKUP_FAILED not in page


def test_unknown_code_can_be_added_as_typed(harness: OutboxHarness) -> None:
    set_order_codes()
    page = search_codes(harness.client("clinician"), "q99.9").content.decode()
    assert 'value="Q99.9"' in page and "Add as typed" in page


def test_search_during_outage_offers_typed_code(harness: OutboxHarness) -> None:
    client = harness.client("clinician")
    set_order_codes(["E78.5"])
    assert matches(search_codes(client, ""))[0].description
    harness.add_fault("status", SEARCH, times=50, statuses=[500])
    response = search_codes(client, "e78")
    assert LOOKUP_FAILED in response.content.decode()
    assert [one.code for one in matches(response)] == ["E78.5"], "used here, so known"
    response = search_codes(client, "i10")
    page = response.content.decode()
    assert LOOKUP_FAILED in page and matches(response) == [] and 'value="I10"' in page


def test_order_is_placed_while_code_search_fails(
    harness: OutboxHarness,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    harness.add_fault("status", "/v3/insurance/", times=50, statuses=[500])
    client = harness.client("clinician")
    assert send_form(client, person, form_values(person, panel, icd_codes="i10")).status_code == 302
    command = confirm_review(client, person)
    assert command.payload["body"]["icd_codes"] == ["I10"]
    harness.deliver()
    command.refresh_from_db()
    assert command.state == CommandRecord.State.DONE, command.refusal
    assert Order.objects.get(pk=command.remote_id).record_at()["icd_codes"] == ["I10"]


def test_search_without_javascript_keeps_form_values(
    harness: OutboxHarness,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    client, address = harness.client("clinician"), reverse("orders:new", args=[person.pk])
    values = form_values(
        person, panel, clinical_notes="fasting", icd_codes="I10", diagnosis="vitamin d"
    )
    page = client.post(address, {**values, "do": "diagnose"}).content.decode()
    for words in ("fasting", 'value="I10"', 'value="vitamin d"', 'value="E55.9"', panel.name):
        assert words in page, words
    response = client.post(address, {**values, "add_code": "E55.9"})
    assert response.status_code == 302 and "E55" not in response["Location"]
    draft = OrderDraft.objects.get().typed
    assert draft["icd_codes"] == ["I10 E55.9"] and draft["clinical_notes"] == ["fasting"]
    assert "diagnosis" not in draft and "add_code" not in draft
    assert "I10 E55.9" in client.get(address).content.decode()


def test_code_on_the_form_is_not_added_twice(
    harness: OutboxHarness,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    client, address = harness.client("clinician"), reverse("orders:new", args=[person.pk])
    client.post(address, {**form_values(person, panel, icd_codes="e55.9"), "add_code": "E55.9"})
    assert OrderDraft.objects.get().typed["icd_codes"] == ["e55.9"]


def test_code_search_refuses_get_requests(harness: OutboxHarness) -> None:
    client = harness.client("clinician")
    assert client.get(reverse("orders:diagnoses"), {"diagnosis": "e11"}).status_code == 405


def test_code_search_requires_permission_to_order(harness: OutboxHarness) -> None:
    response = harness.client("viewer").post(reverse("orders:diagnoses"), {"diagnosis": "e11"})
    assert response.status_code == 403


def test_import_form_says_that_it_takes_no_codes(
    harness: OutboxHarness,
    person: Demographics,  # noqa: F811
) -> None:
    response = harness.client("clinician").get(reverse("orders:import", args=[person.pk]))
    page = response.content.decode()
    assert "Imported orders take no diagnosis codes" in page and "id_diagnosis" not in page
