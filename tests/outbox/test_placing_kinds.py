"""Every kind of order that the page can write is taken by the sandbox, as it was meant."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.models import CommandRecord
from labs.models import LabAccount, LabTest, Marker
from orders.models import Order
from orders.placing.order_request import OrderRequest
from orders.placing.patient_rules import is_name
from orders.placing.questions import questions_of
from patients.models import Demographics, Insurance, Patient
from tests.outbox.desk import Desk
from tests.outbox.test_placing import person, place, typed, write

__all__ = ["person"]
SOUTH = "lab-south"


def panels_at(lab: str) -> list[LabTest]:
    rows = LabTest.objects.filter(lab__slug=lab, status="active", auto_generated=False)
    return list(rows.order_by("method", "name"))


def placed(
    desk: Desk, person: Demographics, given: dict[str, Any], client: Client | None = None
) -> Order:
    """Written, reviewed, placed; answers to every question the lab insists on are given."""
    client = client or desk.client("clinician")
    wish = OrderRequest(Patient.objects.get(pk=person.pk), person, given)
    for question in wish.questions:
        codes = [code for code, _ in question.answers]
        given.setdefault(question.name, codes[0] if codes else "1")
    answer = write(client, person, given)
    assert answer.status_code == 302, answer.context["found"]
    asked = place(client, person)
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == CommandRecord.State.DONE, asked.refusal
    return Order.objects.get(pk=asked.remote_id)


def markers_of(order: Order) -> set[int]:
    return {marker["id"] for marker in order.said("lab_test")["markers"]}


def test_two_panels_of_one_lab(desk: Desk, person: Demographics) -> None:
    by_method: dict[str, list[LabTest]] = {}
    for test in panels_at("lab-north"):
        by_method.setdefault(test.method, []).append(test)
    first, second = next(tests for tests in by_method.values() if len(tests) > 1)[:2]
    made = placed(desk, person, typed(person, first, second, physician="1900000011"))
    wanted = Marker.objects.filter(in_tests__lab_test__in=[first, second], is_orderable=True)
    ordered = markers_of(made)
    assert ordered and ordered <= set(wanted.values_list("pk", flat=True))
    assert made.said("physician")["npi"] == "1900000011"


@pytest.mark.parametrize("with_panel", [True, False])
def test_a_marker_beside_a_panel_and_by_itself(
    desk: Desk, person: Demographics, with_panel: bool
) -> None:
    panel = panels_at(SOUTH)[0]
    marker = (
        Marker.objects.filter(lab__slug=SOUTH, a_la_carte_enabled=True, is_orderable=True)
        .exclude(in_tests__lab_test=panel)
        .order_by("name")[0]
    )
    chosen = [panel] if with_panel else []
    more = {"markers": [str(marker.pk)], "collection_method": panel.method}
    made = placed(desk, person, typed(person, *chosen, **more))
    assert marker.pk in markers_of(made)
    assert made.method == panel.method


def test_questions_of_every_type_are_answered(desk: Desk, person: Demographics) -> None:
    types = set()
    for marker in Marker.objects.filter(has_questions=True):
        types |= {question.type for question in questions_of([marker])}
    asked = [
        test
        for test in LabTest.objects.filter(status="active", auto_generated=False)
        if test.test_markers.filter(marker__has_questions=True).exists()
    ]
    assert asked and types
    done: set[str] = set()
    client = desk.client("clinician")
    for test in asked:
        given = typed(person, test, physician="1900000011", another="on")
        wish = OrderRequest(Patient.objects.get(pk=person.pk), person, given)
        new = {question.type for question in wish.questions} - done
        if new:
            placed(desk, person, given, client)
            done |= new
    assert done


def test_a_physician_who_is_typed(desk: Desk, person: Demographics) -> None:
    given = typed(
        person,
        panels_at("lab-north")[0],
        physician="typed",
        physician_first_name="Pat",
        physician_last_name="Madeup",
        physician_npi="1234567893",
    )
    made = placed(desk, person, given)
    assert made.said("physician")["npi"] == "1234567893"


def test_one_that_goes_out_later_and_is_urgent(desk: Desk, person: Demographics) -> None:
    day = datetime.now(UTC).date() + timedelta(days=5)
    note = "Line one\r\nLine two"
    given = typed(
        person,
        panels_at(SOUTH)[0],
        activate_by=day.isoformat(),
        priority="on",
        clinical_notes=note,
    )
    made = placed(desk, person, given)
    assert (made.activate_by, made.priority, made.low_level_status) == (day, True, "ordered")
    assert "Line one\nLine two" in made.said()["clinical_notes"]


def test_one_that_insurance_pays(desk: Desk) -> None:
    insured = Insurance.objects.filter(is_primary=True, superseded_at=None)
    account = LabAccount.objects.get(lab=SOUTH, status="active")
    states = account.said("allowed_billing")["commercial_insurance"]
    people = Demographics.objects.filter(
        pk__in=insured.values("user_id"), dob__lt=date(2000, 1, 1), state__in=states
    )
    someone = next(one for one in people if is_name(one.first_name) and is_name(one.last_name))
    given = typed(
        someone,
        panels_at(SOUTH)[0],
        billing_type="commercial_insurance",
        icd_codes="z00.00",
        another="on",
    )
    made = placed(desk, someone, given)
    assert made.billing_type == "commercial_insurance"
    assert made.said()["icd_codes"] == ["Z00.00"]


def test_a_minor_with_somebody_who_answers(desk: Desk) -> None:
    born_after = date.today() - timedelta(days=17 * 365)
    young = [
        one for one in Demographics.objects.filter(dob__gt=born_after) if one.said("medical_proxy")
    ]
    someone = next(one for one in young if is_name(one.first_name) and is_name(one.last_name))
    panel = next(test for test in panels_at(SOUTH) if test.method != "at_home_phlebotomy")
    made = placed(desk, someone, typed(someone, panel, another="on"))
    proxy = made.said("patient_details", "medical_proxy")
    assert proxy["first_name"] == someone.said("medical_proxy")["first_name"]


def test_what_is_changed_for_one_order_is_sent_and_stays_there(
    desk: Desk, person: Demographics
) -> None:
    client = desk.client("clinician")
    made = placed(desk, person, typed(person, panels_at(SOUTH)[0], city="Elsewhere"), client)
    assert made.said("patient_address")["city"] == "Elsewhere"
    page = client.get(reverse("patients:detail", args=[person.pk]))
    assert person.city in page.content.decode()
    assert Demographics.objects.get(pk=person.pk).city != "Elsewhere"
