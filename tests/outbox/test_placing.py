"""Placing an order, from the page to the sandbox's database."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import F, Max
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.models import AuditEntry, CommandRecord
from labs.models import LabAccount, LabTest, Marker
from orders.models import Order, OrderDraft
from orders.placing import drafts
from orders.placing.patient_rules import is_name
from patients.models import Demographics
from tests.outbox.desk import Desk

State = CommandRecord.State


@pytest.fixture
def person(desk: Desk) -> Demographics:
    """A known grown-up whom labs accept and who waited longest: the sandbox is shared."""
    known = Demographics.objects.filter(dob__lt=date(2000, 1, 1)).exclude(zip="").exclude(email="")
    by_last = known.annotate(last=Max("user__orders__created_at")).order_by(
        F("last").asc(nulls_first=True), "pk"
    )
    found = next(one for one in by_last if is_name(one.first_name) and is_name(one.last_name))
    Order.objects.filter(user_id=found.pk).update(created_at=timezone.now() - timedelta(days=90))
    return found


@pytest.fixture
def panel(desk: Desk) -> LabTest:
    """One whose lab account needs no physician and no answers."""
    account = LabAccount.objects.get(lab="lab-south", status="active")
    assert account.delegated_flow == "result_delegated"
    tests = LabTest.objects.filter(lab__slug="lab-south", status="active", auto_generated=False)
    asked = Marker.objects.filter(has_questions=True)
    found = tests.exclude(test_markers__marker__in=asked).order_by("name").first()
    return found or tests.order_by("name")[0]


def typed(person: Demographics, *tests: LabTest, **values: Any) -> dict[str, Any]:
    """The form as it would be filled."""
    known = {name: given[0] for name, given in drafts.person_values(person.user, person).items()}
    picked = {"tests": [str(one.pk) for one in tests], "billing_type": "client_bill"}
    return {**known, **picked, **values}


def write(client: Client, person: Demographics, given: dict[str, Any]) -> Any:
    address = reverse("orders:new", args=[person.pk])
    return client.post(address, {**given, "do": "review"})


def place(client: Client, person: Demographics) -> CommandRecord:
    """The button of the review page."""
    address = reverse("orders:new-review", args=[person.pk])
    page = client.get(address)
    assert page.status_code == 200
    given = as_reviewed(page)
    answer = client.post(address, given)
    assert answer.status_code == 302, answer.content.decode()
    return CommandRecord.objects.get(form_id=given["form_id"])


def as_reviewed(page: Any) -> dict[str, str]:
    """What the button of a review page sends."""
    form = page.context["form"]
    return {name: str(form[name].value()) for name in ("form_id", "draft")}


def at_the_sandbox(desk: Desk, command: CommandRecord) -> int:
    """Orders there that carry our command's id."""
    told = f'%"passthrough":"{command.pk}"%'
    return desk.count("SELECT count(*) FROM sandbox_order WHERE fixed_part LIKE %s", told)


def test_an_order_is_placed_once_and_mirrored(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    answer = write(client, person, typed(person, panel))
    assert answer.status_code == 302, answer.content.decode()
    asked = place(client, person)
    assert (asked.state, asked.attempts) == (State.WAITING, 0)
    assert AuditEntry.objects.filter(object_type="order.create", action="change").count() == 1
    patient = client.get(reverse("patients:detail", args=[person.pk])).content.decode()
    assert f"Place the order: {panel.name}" in patient
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    made = Order.objects.get(pk=asked.remote_id)
    assert (made.user_id, made.lab_test_id) == (person.pk, panel.pk)
    assert made.passthrough == str(asked.pk)
    assert at_the_sandbox(desk, asked) == 1
    assert not OrderDraft.objects.exists()
    page = client.get(asked.done_url)
    assert page.status_code == 200


def asked_for(desk: Desk, client: Client, person: Demographics, panel: LabTest) -> CommandRecord:
    assert write(client, person, typed(person, panel)).status_code == 302
    return place(client, person)


def test_one_form_places_one_order_however_often_it_is_sent(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    write(client, person, typed(person, panel))
    address = reverse("orders:new-review", args=[person.pk])
    given = as_reviewed(client.get(address))
    for _ in range(3):
        answer = client.post(address, given)
        assert answer.status_code == 302
        assert answer["Location"] == reverse("commands:detail", args=[desk.newest().pk])
    desk.deliver()
    assert CommandRecord.objects.count() == 1
    assert at_the_sandbox(desk, desk.newest()) == 1


def test_the_same_order_of_two_people_at_once_is_one(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    first, second = desk.client("clinician"), desk.client("lab coordinator")
    write(second, person, typed(person, panel))
    review = second.get(reverse("orders:new-review", args=[person.pk]))
    asked_for(desk, first, person, panel)
    address = reverse("orders:new-review", args=[person.pk])
    answer = second.post(address, as_reviewed(review))
    assert answer.status_code == 422
    assert "asked for something about this already" in answer.content.decode()
    assert CommandRecord.objects.count() == 1


def test_the_same_order_again_needs_a_tick(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    asked_for(desk, client, person, panel)
    desk.deliver()
    answer = write(client, person, typed(person, panel))
    assert answer.status_code == 422
    assert "within the last 24 hours" in answer.content.decode()
    assert write(client, person, typed(person, panel, another="on")).status_code == 302
    place(client, person)
    desk.deliver()
    assert CommandRecord.objects.filter(state=State.DONE).count() == 2


@pytest.mark.parametrize("kind", ["drop_after", "status_after", "truncate"])
def test_a_lost_answer_is_found_by_our_id(
    desk: Desk, person: Demographics, panel: LabTest, kind: str
) -> None:
    asked = asked_for(desk, desk.client("clinician"), person, panel)
    desk.fault(kind, "/order/create$", statuses=[500])
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.UNCERTAIN
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 1)
    assert at_the_sandbox(desk, asked) == 1
    assert Order.objects.filter(pk=asked.remote_id).exists()


def test_what_never_arrived_is_sent_again_under_the_same_key(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    asked = asked_for(desk, desk.client("clinician"), person, panel)
    desk.fault("drop_before", "/order/create$")
    desk.deliver()
    desk.later()
    key = asked.idempotency_key
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "answer", 2)
    assert asked.idempotency_key == key
    assert at_the_sandbox(desk, asked) == 1


def test_a_failure_kept_under_the_key_gets_a_new_key_after_looking(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    """The service answers the same failure to the same key for a day (reliability.md R4)."""
    asked = asked_for(desk, desk.client("clinician"), person, panel)
    key = asked.idempotency_key
    desk.fault("status", "/order/create$", statuses=[500], times=2)
    desk.deliver()
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.attempts) == (State.UNCERTAIN, 2)
    assert asked.idempotency_key == key
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.attempts) == (State.DONE, 3)
    assert asked.idempotency_key != key
    assert at_the_sandbox(desk, asked) == 1


def test_a_limit_keeps_the_order_waiting(desk: Desk, person: Demographics, panel: LabTest) -> None:
    asked = asked_for(desk, desk.client("clinician"), person, panel)
    desk.fault("status", "/order/create$", statuses=[429])
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.WAITING and asked.hindrance
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.attempts) == (State.DONE, 2)


def placed_elsewhere(desk: Desk, person: Demographics, panel: LabTest) -> str:
    """An identical order at the service that nobody here asked for and no mirror knows."""
    client = desk.client("lab coordinator")
    command = asked_for(desk, client, person, panel)
    desk.deliver()
    forget_our_id(desk, command)
    command.refresh_from_db()
    Order.objects.filter(pk=command.remote_id).delete()
    CommandRecord.objects.filter(pk=command.pk).delete()
    return command.remote_id


def test_an_order_that_is_like_ours_is_not_taken_for_it(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    """Placed at the service's own pages a moment before; ours never arrived."""
    other = placed_elsewhere(desk, person, panel)
    asked = asked_for(desk, desk.client("clinician"), person, panel)
    desk.fault("drop_before", "/order/create$")
    desk.deliver()
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "answer", 2)
    assert asked.remote_id != other
    assert at_the_sandbox(desk, asked) == 1


def test_where_no_ids_come_back_a_person_tells_which_is_ours(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    """Orders of other commands, and those known before, are not among what was found."""
    client = desk.client("clinician")
    first = asked_for(desk, client, person, panel)
    desk.deliver()
    write(client, person, typed(person, panel, another="on"))
    second = place(client, person)
    desk.fault("drop_after", "/order/create$")
    desk.deliver()
    forget_our_id(desk, first, second)
    Order.objects.update(passthrough=None)
    desk.later()
    first.refresh_from_db()
    second.refresh_from_db()
    assert (second.state, len(second.found)) == (State.UNDECIDED, 1)
    assert second.found[0]["id"] != first.remote_id


def test_where_ids_come_back_none_without_ours_is_ours(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    """Should it be there all the same, the key answers with it."""
    all_of = "SELECT count(*) FROM sandbox_order WHERE user_id = %s"
    before = desk.count(all_of, person.pk)
    asked = asked_for(desk, desk.client("clinician"), person, panel)
    desk.fault("drop_after", "/order/create$")
    desk.deliver()
    forget_our_id(desk, asked)
    Order.objects.filter(pk=Order.objects.latest("created_at").pk).update(passthrough="a visit")
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "answer", 2)
    assert desk.count(all_of, person.pk) == before + 1


# Refusals


def refused(desk: Desk, asked: CommandRecord) -> CommandRecord:
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.REFUSED and asked.refusal, asked.state
    assert at_the_sandbox(desk, asked) == 0
    return asked


@pytest.mark.parametrize(
    ("part", "name", "value", "field"),
    [
        ("patient_address", "zip", "1", "zip"),
        ("patient_details", "first_name", "", "first_name"),
        ("patient_details", "email", "nobody", "email"),
        ("patient_details", "gender", "f", "gender"),
        ("", "billing_type", "barter", "billing_type"),
        ("", "collection_method", "by post", "collection_method"),
        ("", "lab_account_id", str(UUID(int=5)), "lab_account"),
    ],
)
def test_what_the_service_says_of_a_field_lands_there(
    desk: Desk, person: Demographics, panel: LabTest, part: str, name: str, value: str, field: str
) -> None:
    """Rules of the service that are stricter than ours: what we sent is made to break them."""
    client = desk.client("clinician")
    write(client, person, typed(person, panel, clinical_notes="kept", icd_codes="E11.9"))
    asked = place(client, person)
    body = asked.payload["body"]
    (body[part] if part else body)[name] = value
    asked.save(update_fields=["payload"])
    refused(desk, asked)
    page = client.get(f"{asked.form_url}?again={asked.pk}")
    assert page.context["form"].errors[field]
    shown = page.content.decode()
    assert f'id="id_{field}"' in shown
    assert "kept" in shown and "E11.9" in shown and panel.name in shown


def test_a_refusal_without_a_field_lands_where_its_words_point(
    desk: Desk, person: Demographics
) -> None:
    """The account wants a physician since a moment ago, and the mirror does not know it yet."""
    client = desk.client("clinician")
    LabAccount.objects.filter(lab="lab-north").update(delegated_flow="not_delegated")
    tests = LabTest.objects.filter(lab__slug="lab-north", status="active", auto_generated=False)
    asked_of = Marker.objects.filter(has_questions=True)
    plain = tests.exclude(test_markers__marker__in=asked_of).order_by("name")[0]
    write(client, person, typed(person, plain))
    asked = refused(desk, place(client, person))
    assert "physician" in asked.refusal.lower()
    page = client.get(f"{asked.form_url}?again={asked.pk}")
    assert page.context["form"].errors["physician"] == [asked.refusal]
    assert 'id="id_physician"' in page.content.decode()


def test_a_corrected_order_is_a_new_one_under_a_new_key(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    write(client, person, typed(person, panel))
    first = place(client, person)
    desk.fault("status", "/order/create$", statuses=[400])
    refused(desk, first)
    again = client.get(f"{first.form_url}?again={first.pk}")
    given = {name: list(values) for name, values in again.context["order_request"].typed.items()}
    assert write(client, person, given).status_code == 302
    second = place(client, person)
    desk.deliver()
    second.refresh_from_db()
    assert second.state == State.DONE
    assert second.idempotency_key != first.idempotency_key
    assert at_the_sandbox(desk, second) == 1


def test_the_review_says_all_that_is_sent(desk: Desk, person: Demographics, panel: LabTest) -> None:
    client = desk.client("clinician")
    write(client, person, typed(person, panel, clinical_notes="fasting since ten"))
    page = client.get(reverse("orders:new-review", args=[person.pk])).content.decode()
    for said in (person.first_line, person.zip, person.email, panel.name, "fasting since ten"):
        assert said in page, said


def test_codes_are_checked_at_review_while_a_person_waits(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    write(client, person, typed(person, panel, icd_codes="NOPE"))
    page = client.get(reverse("orders:new-review", args=[person.pk]))
    assert "diagnosis" in {one.kind for one in page.context["stopped"]}
    assert "#id_icd_codes" in page.content.decode()
    desk.fault("drop_before", "/validate_icd_codes$", times=20)
    page = client.get(reverse("orders:new-review", args=[person.pk]))
    assert not page.context["stopped"]
    assert "could not be checked" in page.content.decode()


def forget_our_id(desk: Desk, *commands: CommandRecord) -> None:
    """As a service that does not give it back."""
    for command in commands:
        changed = (
            "UPDATE sandbox_order SET fixed_part = replace(fixed_part, %s, 'null')"
            " WHERE fixed_part LIKE %s RETURNING 1"
        )
        assert desk.sandbox.query(changed, (f'"{command.pk}"', f"%{command.pk}%"))
