"""Placing an order, from the page to the sandbox's database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabTest, Marker
from orders.models import Order, OrderDraft
from orders.placing import drafts
from patients.models import Demographics
from tests.outbox.harness import OutboxHarness

State = CommandRecord.State


def form_values(person: Demographics, *tests: LabTest, **values: Any) -> dict[str, Any]:
    """Return the values of a filled form."""
    person_values = {
        name: texts[0] for name, texts in drafts.person_values(person.user, person).items()
    }
    choices = {"tests": [str(one.pk) for one in tests], "billing_type": "client_bill"}
    return {**person_values, **choices, **values}


def send_form(client: Client, person: Demographics, values: dict[str, Any]) -> Any:
    address = reverse("orders:new", args=[person.pk])
    return client.post(address, {**values, "do": "review"})


def confirm_review(client: Client, person: Demographics) -> CommandRecord:
    """Submit the review page and return the command."""
    address = reverse("orders:new-review", args=[person.pk])
    page = client.get(address)
    assert page.status_code == 200
    values = review_values(page)
    response = client.post(address, values)
    assert response.status_code == 302, response.content.decode()
    return CommandRecord.objects.get(form_id=values["form_id"])


def review_values(page: Any) -> dict[str, str]:
    """Return the values that the button of a review page sends."""
    form = page.context["form"]
    return {name: str(form[name].value()) for name in ("form_id", "draft")}


def count_at_sandbox(harness: OutboxHarness, command: CommandRecord) -> int:
    """Count the orders at the sandbox with the id of the command."""
    pattern = f'%"passthrough":"{command.pk}"%'
    return harness.count("SELECT count(*) FROM sandbox_order WHERE fixed_part LIKE %s", pattern)


def test_order_is_placed_once_and_mirrored(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    response = send_form(client, person, form_values(person, panel))
    assert response.status_code == 302, response.content.decode()
    command = confirm_review(client, person)
    assert (command.state, command.attempts) == (State.WAITING, 0)
    assert AuditEntry.objects.filter(object_type="order.create", action="change").count() == 1
    patient = client.get(reverse("patients:detail", args=[person.pk])).content.decode()
    assert f"Place order: {panel.name}" in patient
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by) == (State.DONE, "answer")
    order = Order.objects.get(pk=command.remote_id)
    assert (order.user_id, order.lab_test_id) == (person.pk, panel.pk)
    assert order.passthrough == str(command.pk)
    assert count_at_sandbox(harness, command) == 1
    assert not OrderDraft.objects.exists()
    page = client.get(command.done_url)
    assert page.status_code == 200


def request_order(
    harness: OutboxHarness, client: Client, person: Demographics, panel: LabTest
) -> CommandRecord:
    assert send_form(client, person, form_values(person, panel)).status_code == 302
    return confirm_review(client, person)


def test_form_sent_repeatedly_places_one_order(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    send_form(client, person, form_values(person, panel))
    address = reverse("orders:new-review", args=[person.pk])
    values = review_values(client.get(address))
    for _ in range(3):
        response = client.post(address, values)
        assert response.status_code == 302
        assert response["Location"] == reverse(
            "commands:detail", args=[harness.newest_command().pk]
        )
    harness.deliver()
    assert CommandRecord.objects.count() == 1
    assert count_at_sandbox(harness, harness.newest_command()) == 1


def test_same_order_by_two_users_at_once_is_one(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    first, second = harness.client("clinician"), harness.client("lab coordinator")
    send_form(second, person, form_values(person, panel))
    review = second.get(reverse("orders:new-review", args=[person.pk]))
    request_order(harness, first, person, panel)
    address = reverse("orders:new-review", args=[person.pk])
    response = second.post(address, review_values(review))
    assert response.status_code == 422
    assert "already sent a request about this" in response.content.decode()
    assert CommandRecord.objects.count() == 1


def test_repeated_order_needs_confirmation(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    request_order(harness, client, person, panel)
    harness.deliver()
    response = send_form(client, person, form_values(person, panel))
    assert response.status_code == 422
    assert "within the last 24 hours" in response.content.decode()
    assert send_form(client, person, form_values(person, panel, another="on")).status_code == 302
    confirm_review(client, person)
    harness.deliver()
    assert CommandRecord.objects.filter(state=State.DONE).count() == 2


@pytest.mark.parametrize("kind", ["drop_after", "status_after", "truncate"])
def test_lost_order_answer_is_found_by_command_id(
    harness: OutboxHarness, person: Demographics, panel: LabTest, kind: str
) -> None:
    command = request_order(harness, harness.client("clinician"), person, panel)
    harness.add_fault(kind, "/order/create$", statuses=[500])
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.UNCERTAIN
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 1)
    assert count_at_sandbox(harness, command) == 1
    assert Order.objects.filter(pk=command.remote_id).exists()


def test_order_that_never_arrived_is_sent_with_the_same_key(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    command = request_order(harness, harness.client("clinician"), person, panel)
    harness.add_fault("drop_before", "/order/create$")
    harness.deliver()
    harness.pass_time()
    key = command.idempotency_key
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "answer", 2)
    assert command.idempotency_key == key
    assert count_at_sandbox(harness, command) == 1


def test_stored_failure_gets_a_new_key_after_lookup(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    """The service repeats a failure for the same key for a day (reliability.md R4)."""
    command = request_order(harness, harness.client("clinician"), person, panel)
    key = command.idempotency_key
    harness.add_fault("status", "/order/create$", statuses=[500], times=2)
    harness.deliver()
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.attempts) == (State.UNCERTAIN, 2)
    assert command.idempotency_key == key
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.attempts) == (State.DONE, 3)
    assert command.idempotency_key != key
    assert count_at_sandbox(harness, command) == 1


def test_rate_limit_keeps_the_order_waiting(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    command = request_order(harness, harness.client("clinician"), person, panel)
    harness.add_fault("status", "/order/create$", statuses=[429])
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.WAITING and command.hindrance
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.attempts) == (State.DONE, 2)


def place_order_elsewhere(harness: OutboxHarness, person: Demographics, panel: LabTest) -> str:
    """Place an identical order at the service that neither commands nor mirror know."""
    client = harness.client("lab coordinator")
    command = request_order(harness, client, person, panel)
    harness.deliver()
    remove_command_id(harness, command)
    command.refresh_from_db()
    Order.objects.filter(pk=command.remote_id).delete()
    CommandRecord.objects.filter(pk=command.pk).delete()
    return command.remote_id


def test_identical_foreign_order_is_not_taken_for_ours(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    """The other order was placed at the service a moment before. Ours never arrived."""
    other = place_order_elsewhere(harness, person, panel)
    command = request_order(harness, harness.client("clinician"), person, panel)
    harness.add_fault("drop_before", "/order/create$")
    harness.deliver()
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "answer", 2)
    assert command.remote_id != other
    assert count_at_sandbox(harness, command) == 1


def test_orders_without_command_ids_are_undecided(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    """Orders of other commands, and orders known before, are not among the found records."""
    client = harness.client("clinician")
    first = request_order(harness, client, person, panel)
    harness.deliver()
    send_form(client, person, form_values(person, panel, another="on"))
    second = confirm_review(client, person)
    harness.add_fault("drop_after", "/order/create$")
    harness.deliver()
    remove_command_id(harness, first, second)
    Order.objects.update(passthrough=None)
    harness.pass_time()
    first.refresh_from_db()
    second.refresh_from_db()
    assert (second.state, len(second.found)) == (State.UNDECIDED, 1)
    assert second.found[0]["id"] != first.remote_id


def test_order_without_our_command_id_is_not_ours(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    """If our order exists all the same, the service returns it for the same key."""
    orders_of_patient = "SELECT count(*) FROM sandbox_order WHERE user_id = %s"
    before = harness.count(orders_of_patient, person.pk)
    command = request_order(harness, harness.client("clinician"), person, panel)
    harness.add_fault("drop_after", "/order/create$")
    harness.deliver()
    remove_command_id(harness, command)
    Order.objects.filter(pk=Order.objects.latest("created_at").pk).update(passthrough="a visit")
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "answer", 2)
    assert harness.count(orders_of_patient, person.pk) == before + 1


# Refusals


def deliver_refused(harness: OutboxHarness, command: CommandRecord) -> CommandRecord:
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.REFUSED and command.refusal, command.state
    assert count_at_sandbox(harness, command) == 0
    return command


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
def test_refusal_of_the_service_is_shown_at_its_field(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    part: str,
    name: str,
    value: str,
    field: str,
) -> None:
    """The service has stricter rules than our form: the payload is changed to break them."""
    client = harness.client("clinician")
    send_form(client, person, form_values(person, panel, clinical_notes="kept", icd_codes="E11.9"))
    command = confirm_review(client, person)
    body = command.payload["body"]
    (body[part] if part else body)[name] = value
    command.save(update_fields=["payload"])
    deliver_refused(harness, command)
    page = client.get(f"{command.form_url}?again={command.pk}")
    assert page.context["form"].errors[field]
    page_text = page.content.decode()
    assert f'id="id_{field}"' in page_text
    assert "kept" in page_text and "E11.9" in page_text and panel.name in page_text


def test_refusal_without_field_is_shown_by_its_text(
    harness: OutboxHarness, person: Demographics
) -> None:
    """The account has just started to require a physician. The mirror does not know it yet."""
    client = harness.client("clinician")
    LabAccount.objects.filter(lab="lab-north").update(delegated_flow="not_delegated")
    tests = LabTest.objects.filter(lab__slug="lab-north", status="active", auto_generated=False)
    asked_of = Marker.objects.filter(has_questions=True)
    plain_test = tests.exclude(test_markers__marker__in=asked_of).order_by("name")[0]
    send_form(client, person, form_values(person, plain_test))
    command = deliver_refused(harness, confirm_review(client, person))
    assert "physician" in command.refusal.lower()
    page = client.get(f"{command.form_url}?again={command.pk}")
    assert page.context["form"].errors["physician"] == [command.refusal]
    assert 'id="id_physician"' in page.content.decode()


def test_corrected_order_is_sent_with_a_new_key(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    send_form(client, person, form_values(person, panel))
    first = confirm_review(client, person)
    harness.add_fault("status", "/order/create$", statuses=[400])
    deliver_refused(harness, first)
    again = client.get(f"{first.form_url}?again={first.pk}")
    values = {name: list(values) for name, values in again.context["order_request"].typed.items()}
    assert send_form(client, person, values).status_code == 302
    second = confirm_review(client, person)
    harness.deliver()
    second.refresh_from_db()
    assert second.state == State.DONE
    assert second.idempotency_key != first.idempotency_key
    assert count_at_sandbox(harness, second) == 1


def test_review_shows_everything_that_is_sent(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    send_form(client, person, form_values(person, panel, clinical_notes="fasting since ten"))
    page = client.get(reverse("orders:new-review", args=[person.pk])).content.decode()
    for text in (person.first_line, person.zip, person.email, panel.name, "fasting since ten"):
        assert text in page, text


def test_diagnosis_codes_are_checked_at_review(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    send_form(client, person, form_values(person, panel, icd_codes="NOPE"))
    page = client.get(reverse("orders:new-review", args=[person.pk]))
    assert "diagnosis" in {one.kind for one in page.context["stopped"]}
    assert "#id_icd_codes" in page.content.decode()
    harness.add_fault("drop_before", "/validate_icd_codes$", times=20)
    page = client.get(reverse("orders:new-review", args=[person.pk]))
    assert not page.context["stopped"]
    assert "could not be checked" in page.content.decode()


def remove_command_id(harness: OutboxHarness, *commands: CommandRecord) -> None:
    """Remove the command id from the order, like a service that does not return it."""
    for command in commands:
        changed = (
            "UPDATE sandbox_order SET fixed_part = replace(fixed_part, %s, 'null')"
            " WHERE fixed_part LIKE %s RETURNING 1"
        )
        assert harness.sandbox.query(changed, (f'"{command.pk}"', f"%{command.pk}%"))
