"""Diagnosis codes are looked up at the sandbox while an order is written (users.md 6)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from backoffice.models import CommandRecord
from labs.models import LabTest
from orders.models import Order, OrderDraft
from orders.placing.diagnoses import USED_KEY, Diagnosis, used_codes
from patients.models import Demographics
from tests.outbox.desk import Desk
from tests.outbox.test_placing import panel, person, place, typed, write  # noqa: F401

SEARCH = "/v3/insurance/search/diagnosis$"
CANNOT = "Codes could not be looked up"


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Codes of other tests are not those of this installation."""
    cache.delete(USED_KEY)
    yield
    cache.delete(USED_KEY)


def ordered_with(*codes: Sequence[str]) -> None:
    """The newest orders have these codes, newest first, and all others none."""
    for order in Order.objects.all():
        order.record = json.dumps({**order.said(), "icd_codes": None})
        order.save(update_fields=["record"])
    newest = Order.objects.order_by("-created_at", "-pk")[: len(codes)]
    for order, its in zip(newest, codes, strict=True):
        order.record = json.dumps({**order.said(), "icd_codes": its})
        order.save(update_fields=["record"])
    cache.delete(USED_KEY)


def look_up(client: Client, word: str, chosen: str = "") -> Any:
    given = {"diagnosis": word, "icd_codes": chosen}
    answer: Any = client.post(reverse("orders:diagnoses"), given)
    assert answer.status_code == 200
    return answer


def found(answer: Any) -> list[Diagnosis]:
    return list(answer.context["matches"].found)


def test_words_find_codes_with_their_descriptions(desk: Desk) -> None:
    ordered_with()
    answer = look_up(desk.client("clinician"), "hyperlip")
    assert [one.code for one in found(answer)] == ["E78.5"]
    page = answer.content.decode()
    assert 'value="E78.5"' in page and "Hyperlipidemia, unspecified" in page


def test_beginning_of_a_code_finds_codes(desk: Desk) -> None:
    ordered_with()
    codes = [one.code for one in found(look_up(desk.client("clinician"), "e11"))]
    assert codes == ["E11.9"]


def test_codes_used_here_come_first(desk: Desk) -> None:
    client = desk.client("clinician")
    ordered_with(["E78.5"], ["I10", "E78.5"])
    codes = found(look_up(client, "e78"))
    assert [(one.code, one.uses) for one in codes] == [("E78.5", 2), ("E78.00", 0)]
    ordered_with(["E78.00"])
    codes = found(look_up(client, "e78"))
    assert [one.code for one in codes] == ["E78.00", "E78.5"]


def test_code_that_was_typed_comes_before_used_ones(desk: Desk) -> None:
    ordered_with(["E78.5"])
    desk.sandbox.query(
        'INSERT INTO sandbox_diagnosiscode (code, description, is_secondary, excludes, "overlaps")'
        " VALUES ('E78', 'Disorders of lipoprotein metabolism', false, '{}', '{}') RETURNING code"
    )
    codes = [one.code for one in found(look_up(desk.client("clinician"), "e78"))]
    assert codes == ["E78", "E78.5", "E78.00"]


def test_no_word_shows_most_used_codes_described(desk: Desk) -> None:
    ordered_with(["I10"], ["E55.9"], ["E55.9"], ["D64.9"])
    answer = look_up(desk.client("clinician"), "", chosen="d64.9")
    assert [(one.code, one.uses) for one in found(answer)] == [("E55.9", 2), ("I10", 1)]
    assert "Vitamin D deficiency, unspecified" in answer.content.decode()
    assert "2 recent orders" in answer.content.decode()


def test_odd_codes_of_orders_are_not_counted(desk: Desk) -> None:
    ordered_with(["I10", 7], ["x" * 40, "e55.9"], [])  # type: ignore[list-item]
    assert used_codes() == {"E55.9": 1}


def test_nothing_found_says_so(desk: Desk) -> None:
    ordered_with()
    page = look_up(desk.client("clinician"), "no such thing").content.decode()
    assert "No code matches" in page and "no such thing" in page and CANNOT not in page


def test_unknown_code_can_be_added_as_typed(desk: Desk) -> None:
    ordered_with()
    page = look_up(desk.client("clinician"), "q99.9").content.decode()
    assert 'value="Q99.9"' in page and "Add as typed" in page


def test_silent_service_is_named_and_typed_code_offered(desk: Desk) -> None:
    client = desk.client("clinician")
    ordered_with(["E78.5"])
    assert found(look_up(client, ""))[0].description
    desk.fault("status", SEARCH, times=50, statuses=[500])
    answer = look_up(client, "e78")
    assert CANNOT in answer.content.decode()
    assert [one.code for one in found(answer)] == ["E78.5"], "used here, so known"
    answer = look_up(client, "i10")
    page = answer.content.decode()
    assert CANNOT in page and found(answer) == [] and 'value="I10"' in page


def test_order_is_placed_while_codes_cannot_be_looked_up(
    desk: Desk,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    desk.fault("status", "/v3/insurance/", times=50, statuses=[500])
    client = desk.client("clinician")
    assert write(client, person, typed(person, panel, icd_codes="i10")).status_code == 302
    asked = place(client, person)
    assert asked.payload["body"]["icd_codes"] == ["I10"]
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == CommandRecord.State.DONE, asked.refusal
    assert Order.objects.get(pk=asked.remote_id).said()["icd_codes"] == ["I10"]


def test_search_without_scripts_keeps_what_was_typed(
    desk: Desk,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    client, address = desk.client("clinician"), reverse("orders:new", args=[person.pk])
    given = typed(person, panel, clinical_notes="fasting", icd_codes="I10", diagnosis="vitamin d")
    page = client.post(address, {**given, "do": "diagnose"}).content.decode()
    for words in ("fasting", 'value="I10"', 'value="vitamin d"', 'value="E55.9"', panel.name):
        assert words in page, words
    answer = client.post(address, {**given, "add_code": "E55.9"})
    assert answer.status_code == 302 and "E55" not in answer["Location"]
    draft = OrderDraft.objects.get().typed
    assert draft["icd_codes"] == ["I10 E55.9"] and draft["clinical_notes"] == ["fasting"]
    assert "diagnosis" not in draft and "add_code" not in draft
    assert "I10 E55.9" in client.get(address).content.decode()


def test_code_that_is_there_is_not_added_twice(
    desk: Desk,
    person: Demographics,  # noqa: F811
    panel: LabTest,  # noqa: F811
) -> None:
    client, address = desk.client("clinician"), reverse("orders:new", args=[person.pk])
    client.post(address, {**typed(person, panel, icd_codes="e55.9"), "add_code": "E55.9"})
    assert OrderDraft.objects.get().typed["icd_codes"] == ["e55.9"]


def test_no_diagnosis_stands_in_an_address(desk: Desk) -> None:
    client = desk.client("clinician")
    assert client.get(reverse("orders:diagnoses"), {"diagnosis": "e11"}).status_code == 405


def test_only_those_who_order_may_look_up_codes(desk: Desk) -> None:
    answer = desk.client("viewer").post(reverse("orders:diagnoses"), {"diagnosis": "e11"})
    assert answer.status_code == 403


def test_import_says_that_it_takes_no_codes(
    desk: Desk,
    person: Demographics,  # noqa: F811
) -> None:
    page = desk.client("clinician").get(reverse("orders:import", args=[person.pk]))
    shown = page.content.decode()
    assert "An import takes no diagnosis codes" in shown and "id_diagnosis" not in shown
