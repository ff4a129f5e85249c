"""The form that replaces an order at the wrong lab, and the page of their transaction."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from backoffice.accounts.models import User
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, Marker
from orders.commands import CreateOrder, ImportOrder
from orders.models import Order, OrderEvent, Transaction
from tests.api.rows import envelope, order, uid
from tests.orders.placing import (
    ACCOUNT,
    QUESTION,
    TEST,
    create_second_account,
    form_values,
    order_form_url,
)

SECOND_ACCOUNT = uid("account", 2)
CANCELED_ORDER = str(uid("order", 1))


def create_canceled_order(**values: Any) -> Order:
    """Create a canceled order of the patient."""
    placed = order(
        1,
        **{
            "user_id": uid("patient", 1),
            "lab_test_id": TEST,
            "lab_slug": "lab-a",
            "low_level_status": "cancelled",
            "order_transaction_id": uid("transaction", 1),
            "origin": "initial",
            **values,
        },
    )
    placed.save()
    return placed


def create_request(
    placed: Order, account: UUID | None, kind: str = CreateOrder.kind, **body: Any
) -> None:
    """Create the request by which an order was placed from here."""
    CommandRecord.objects.create(
        kind=kind,
        title="Place the order",
        subject_type="patient",
        subject_id=str(placed.user_id),
        patient_id=placed.user_id,
        payload={"body": {"lab_account_id": account and str(account), **body}},
        form_id=uuid4(),
        idempotency_key=uuid4(),
        requested_by=User.objects.get(),
        state=CommandRecord.State.DONE,
        remote_id=str(placed.pk),
    )


def send_review(client: Client, **values: Any) -> Any:
    given = {**form_values(replaces=CANCELED_ORDER), **values, "do": "review"}
    return client.post(order_form_url(client), given)


def stop_kinds(answer: Any) -> set[str]:
    return {one.kind for one in answer.context["stopped"]}


@pytest.mark.parametrize("kind", [CreateOrder.kind, ImportOrder.kind])
def test_incorrect_account_cannot_be_chosen_again(clinician_client: Client, kind: str) -> None:
    create_second_account()
    create_request(create_canceled_order(), ACCOUNT, kind)
    page = clinician_client.get(order_form_url(clinician_client), {"replaces": CANCELED_ORDER})
    choices = dict(page.context["form"].fields["lab_account"].choices)
    assert [*choices] == ["", str(SECOND_ACCOUNT), str(ACCOUNT)]
    assert choices[str(ACCOUNT)].endswith(" (used for the canceled order)")
    answer = send_review(clinician_client, lab_account=str(ACCOUNT), clinical_notes="call first")
    assert answer.status_code == 422 and stop_kinds(answer) == {"incorrect account"}
    shown = answer.content.decode()
    assert "The canceled order used this account. Choose another account." in shown
    assert 'href="#id_lab_account" data-fix' in shown and "call first" in shown
    assert send_review(clinician_client, lab_account="").status_code == 422, "a person must choose"
    assert send_review(clinician_client, lab_account=str(SECOND_ACCOUNT)).status_code == 302


def test_replacement_needs_another_account_or_lab(clinician_client: Client) -> None:
    create_request(create_canceled_order(), ACCOUNT)
    answer = send_review(clinician_client)
    assert answer.status_code == 422 and stop_kinds(answer) == {"no other account"}
    assert "Made-up account: used for the canceled order" in answer.content.decode()


def test_unknown_account_must_be_chosen(clinician_client: Client) -> None:
    """The order was placed elsewhere or without an account, so the incorrect account is unknown."""
    create_request(create_canceled_order(), None)
    answer = send_review(clinician_client)
    assert answer.status_code == 422 and stop_kinds(answer) == {"account anew"}
    assert send_review(clinician_client, lab_account=str(ACCOUNT)).status_code == 302


def test_replaced_order_must_be_canceled(clinician_client: Client) -> None:
    create_canceled_order(low_level_status="requisition_created")
    answer = send_review(clinician_client, lab_account=str(ACCOUNT))
    assert answer.status_code == 422 and stop_kinds(answer) == {"not canceled"}
    assert f'href="/orders/{CANCELED_ORDER}/"' in answer.content.decode()


def test_canceled_visit_after_canceled_order_is_accepted(clinician_client: Client) -> None:
    placed = create_canceled_order(low_level_status="appointment_cancelled")
    OrderEvent.objects.create(
        order_id=placed.pk,
        event_id=1,
        created_at=placed.created_at,
        status="cancelled.walk_in_test.cancelled",
        low_level_status="cancelled",
    )
    assert send_review(clinician_client, lab_account=str(ACCOUNT)).status_code == 302


@pytest.mark.parametrize("exists", [True, False])
def test_order_of_another_patient_is_not_replaced(clinician_client: Client, exists: bool) -> None:
    if exists:
        create_canceled_order(user_id=uid("patient", 2))
    answer = send_review(clinician_client, lab_account=str(ACCOUNT))
    assert answer.status_code == 422 and stop_kinds(answer) == {"not replaceable"}


def test_review_names_replaced_order(clinician_client: Client) -> None:
    create_canceled_order()
    answer = send_review(clinician_client, lab_account=str(ACCOUNT))
    page = clinician_client.get(answer["Location"]).content.decode()
    assert "<dt>Replaces</dt>" in page and f'href="/orders/{CANCELED_ORDER}/"' in page


def transaction_card(client: Client, shown: Order) -> str:
    """Return the card of the transaction on the page of one of its orders."""
    page = client.get(reverse("orders:detail", args=[shown.pk])).content.decode()
    _, _, card = page.partition('aria-labelledby="siblings"')
    return " ".join(card.partition("</section>")[0].split())


@pytest.fixture
def canceled_and_new(clinician_client: Client) -> tuple[Order, Order]:
    """A canceled order and its replacement."""
    Transaction(id=uid("transaction", 1), status="active", **envelope(json.dumps({}))).save()
    old = create_canceled_order()
    new = order(
        0,
        user_id=old.user_id,
        low_level_status="requisition_created",
        order_transaction_id=old.order_transaction_id,
        origin="recreation",
        parent_id=old.pk,
    )
    new.save()
    return old, new


def test_transaction_shows_both_orders(
    clinician_client: Client, canceled_and_new: tuple[Order, Order]
) -> None:
    create_second_account()
    for placed, account in zip(canceled_and_new, (ACCOUNT, SECOND_ACCOUNT), strict=True):
        create_request(placed, account)
    numbers = [str(pk)[:6] for pk in (ACCOUNT, SECOND_ACCOUNT)]
    old, new = canceled_and_new
    for shown, other in ((old, new), (new, old)):
        card = transaction_card(clinician_client, shown)
        assert f'href="/orders/{other.pk}/"' in card and f"/orders/{shown.pk}/" not in card
        assert card.index("First order") < card.index("Recreated"), "oldest first"
        assert card.count('aria-current="page"') == 1
        requested = "Requested under Made-up account, account number"
        places = [card.index(f"{requested} {one}") for one in numbers]
        assert places == sorted(places)


def test_account_of_request_from_elsewhere_is_unknown(
    clinician_client: Client, canceled_and_new: tuple[Order, Order]
) -> None:
    create_request(canceled_and_new[1], ACCOUNT)
    card = transaction_card(clinician_client, canceled_and_new[0])
    assert card.index("Lab account unknown") < card.index("Requested under")
    LabAccount.objects.all().delete()
    assert transaction_card(clinician_client, canceled_and_new[0]).count("Lab account unknown") == 2


def test_redraw_shows_no_accounts(
    clinician_client: Client, canceled_and_new: tuple[Order, Order]
) -> None:
    Order.objects.filter(pk=canceled_and_new[1].pk).update(origin="redraw")
    card = transaction_card(clinician_client, canceled_and_new[0])
    assert "Redraw" in card and "account" not in card


def set_question(marker_id: int, question: dict[str, Any]) -> None:
    record = json.dumps({"aoe": {"questions": [question]}})
    Marker.objects.filter(pk=marker_id).update(has_questions=True, record=record)


def create_answered_order(answer: str = "12") -> None:
    """Create a canceled order for the second marker with an answer to its question."""
    placed = create_canceled_order(
        lab_test_id=None, record=json.dumps({"lab_test": {"markers": [{"id": 2}]}})
    )
    given = {"marker_id": 2, "question_id": QUESTION["id"], "answer": answer}
    create_request(placed, ACCOUNT, aoe_answers=[given])


@pytest.mark.parametrize("begin", ["replaces", "repeat"])
def test_answers_of_canceled_order_are_filled_in(clinician_client: Client, begin: str) -> None:
    create_answered_order()
    page = clinician_client.get(order_form_url(clinician_client), {begin: CANCELED_ORDER})
    assert page.context["order_request"].value(f"q-2-{QUESTION['id']}") == "12"
    shown = page.content.decode()
    assert 'value="12"' in shown
    hint = "Answers from the canceled order are filled in where the question is the same."
    assert (hint in shown) is (begin == "replaces")


def test_answers_are_filled_in_by_question_code(clinician_client: Client) -> None:
    """Another marker has the same question; an answer that was emptied stays empty."""
    create_answered_order()
    set_question(2, {**QUESTION, "code": "WEEKS"})
    set_question(1, {**QUESTION, "id": 5, "code": "WEEKS"})
    values = form_values(tests=[], markers=["1"], replaces=CANCELED_ORDER)
    page = clinician_client.post(
        order_form_url(clinician_client), values, headers={"HX-Request": "true"}
    )
    assert page.context["order_request"].value("q-1-5") == "12"
    values["q-1-5"] = ""
    page = clinician_client.post(
        order_form_url(clinician_client), values, headers={"HX-Request": "true"}
    )
    assert page.context["order_request"].value("q-1-5") == ""


def test_answer_that_is_no_choice_must_be_given_again(clinician_client: Client) -> None:
    create_answered_order()
    set_question(2, {**QUESTION, "answers": [{"code": "Y", "value": "Yes"}]})
    page = clinician_client.get(order_form_url(clinician_client), {"replaces": CANCELED_ORDER})
    assert page.context["order_request"].value(f"q-2-{QUESTION['id']}") == ""


def test_unknown_answers_must_be_given_again(clinician_client: Client) -> None:
    create_answered_order()
    CommandRecord.objects.all().delete()
    page = clinician_client.get(
        order_form_url(clinician_client), {"replaces": CANCELED_ORDER}
    ).content.decode()
    assert "The answers on the canceled order are not known. Answer the questions again." in page


def account_text(client: Client, shown: Order) -> str:
    """Return what the page of an order says about its lab account."""
    page = client.get(reverse("orders:detail", args=[shown.pk])).content.decode()
    _, _, fact = page.partition("<dt>Lab account</dt><dd>")
    return strip_tags(fact.partition("</dd>")[0])


def test_page_shows_requested_account(clinician_client: Client) -> None:
    placed = create_canceled_order(low_level_status="ordered", order_transaction_id=None)
    create_request(placed, ACCOUNT)
    number = str(ACCOUNT)[:6]
    expected = f"Requested under Made-up account, account number {number}"
    assert account_text(clinician_client, placed) == expected
    LabAccount.objects.all().delete()
    expected = "Requested under an account that is no longer listed"
    assert account_text(clinician_client, placed) == expected


def test_page_of_order_from_elsewhere_shows_no_account(clinician_client: Client) -> None:
    placed = create_canceled_order(low_level_status="ordered")
    assert account_text(clinician_client, placed) == "Unknown"
    create_request(placed, None)
    assert account_text(clinician_client, placed) == "None named in the request"
