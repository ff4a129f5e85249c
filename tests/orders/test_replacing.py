"""The form of an order that replaces one at the wrong lab, and the page of their transaction."""

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
from tests.orders.test_placing_findings import (
    ACCOUNT,
    QUESTION,
    TEST,
    catalogue,
    client_of,
    page_of,
    second_account,
    typed,
)

__all__ = ["catalogue", "client_of"]
SECOND = uid("account", 2)
FORMER = str(uid("order", 1))


def former(**values: Any) -> Order:
    """An order of the patient that was canceled."""
    made = order(
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
    made.save()
    return made


def requested(made: Order, account: UUID | None, kind: str = CreateOrder.kind, **body: Any) -> None:
    """The request by which an order was placed from here."""
    CommandRecord.objects.create(
        kind=kind,
        title="Place the order",
        subject_type="patient",
        subject_id=str(made.user_id),
        patient_id=made.user_id,
        payload={"body": {"lab_account_id": account and str(account), **body}},
        form_id=uuid4(),
        idempotency_key=uuid4(),
        requested_by=User.objects.get(),
        state=CommandRecord.State.DONE,
        remote_id=str(made.pk),
    )


def review(client: Client, **values: Any) -> Any:
    given = {**typed(replaces=FORMER), **values, "do": "review"}
    return client.post(page_of(client), given)


def kinds(answer: Any) -> set[str]:
    return {one.kind for one in answer.context["stopped"]}


@pytest.mark.parametrize("kind", [CreateOrder.kind, ImportOrder.kind])
def test_the_incorrect_account_cannot_be_chosen_again(client_of: Client, kind: str) -> None:
    second_account()
    requested(former(), ACCOUNT, kind)
    page = client_of.get(page_of(client_of), {"replaces": FORMER})
    choices = dict(page.context["form"].fields["lab_account"].choices)
    assert [*choices] == ["", str(SECOND), str(ACCOUNT)]
    assert choices[str(ACCOUNT)].endswith(": used for the canceled order")
    answer = review(client_of, lab_account=str(ACCOUNT), clinical_notes="call first")
    assert answer.status_code == 422 and kinds(answer) == {"incorrect account"}
    shown = answer.content.decode()
    assert "The canceled order was placed under this account. Choose another one." in shown
    assert 'href="#id_lab_account" data-fix' in shown and "call first" in shown
    assert review(client_of, lab_account="").status_code == 422, "the choice is a person's"
    assert review(client_of, lab_account=str(SECOND)).status_code == 302


def test_without_another_account_another_lab_is_needed(client_of: Client) -> None:
    requested(former(), ACCOUNT)
    answer = review(client_of)
    assert answer.status_code == 422 and kinds(answer) == {"no other account"}
    assert "Made-up account: used for the canceled order" in answer.content.decode()


def test_an_account_that_is_not_known_is_a_persons_choice(client_of: Client) -> None:
    """Placed elsewhere, or without naming an account: nothing says which one was incorrect."""
    requested(former(), None)
    answer = review(client_of)
    assert answer.status_code == 422 and kinds(answer) == {"account anew"}
    assert review(client_of, lab_account=str(ACCOUNT)).status_code == 302


def test_the_order_to_replace_must_be_canceled(client_of: Client) -> None:
    former(low_level_status="requisition_created")
    answer = review(client_of, lab_account=str(ACCOUNT))
    assert answer.status_code == 422 and kinds(answer) == {"not canceled"}
    assert f'href="/orders/{FORMER}/"' in answer.content.decode()


def test_a_visit_that_ended_after_its_order_changes_nothing(client_of: Client) -> None:
    made = former(low_level_status="appointment_cancelled")
    OrderEvent.objects.create(
        order_id=made.pk,
        event_id=1,
        created_at=made.created_at,
        status="cancelled.walk_in_test.cancelled",
        low_level_status="cancelled",
    )
    assert review(client_of, lab_account=str(ACCOUNT)).status_code == 302


@pytest.mark.parametrize("known", [True, False])
def test_another_patients_order_is_not_replaced(client_of: Client, known: bool) -> None:
    if known:
        former(user_id=uid("patient", 2))
    answer = review(client_of, lab_account=str(ACCOUNT))
    assert answer.status_code == 422 and kinds(answer) == {"not replaceable"}


def test_the_review_names_the_order_that_is_replaced(client_of: Client) -> None:
    former()
    answer = review(client_of, lab_account=str(ACCOUNT))
    page = client_of.get(answer["Location"]).content.decode()
    assert "<dt>Replaces</dt>" in page and f'href="/orders/{FORMER}/"' in page


def transaction(client: Client, shown: Order) -> str:
    """The card of the transaction on the page of one of its orders."""
    page = client.get(reverse("orders:detail", args=[shown.pk])).content.decode()
    _, _, card = page.partition('aria-labelledby="siblings"')
    return " ".join(card.partition("</section>")[0].split())


@pytest.fixture
def both(client_of: Client) -> tuple[Order, Order]:
    """A canceled order and the one that replaces it."""
    Transaction(id=uid("transaction", 1), status="active", **envelope(json.dumps({}))).save()
    old = former()
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


def test_the_transaction_shows_both_orders(client_of: Client, both: tuple[Order, Order]) -> None:
    second_account()
    for made, account in zip(both, (ACCOUNT, SECOND), strict=True):
        requested(made, account)
    numbers = [str(pk)[:6] for pk in (ACCOUNT, SECOND)]
    old, new = both
    for shown, other in ((old, new), (new, old)):
        card = transaction(client_of, shown)
        assert f'href="/orders/{other.pk}/"' in card and f"/orders/{shown.pk}/" not in card
        assert card.index("First order") < card.index("Recreated"), "oldest first"
        assert card.count('aria-current="page"') == 1
        places = [card.index(f"Requested under Made-up account, number {one}") for one in numbers]
        assert places == sorted(places)


def test_an_account_that_was_not_requested_here_is_unknown(
    client_of: Client, both: tuple[Order, Order]
) -> None:
    requested(both[1], ACCOUNT)
    card = transaction(client_of, both[0])
    assert card.index("Lab account unknown") < card.index("Requested under")
    LabAccount.objects.all().delete()
    assert transaction(client_of, both[0]).count("Lab account unknown") == 2


def test_a_redraw_says_nothing_of_accounts(client_of: Client, both: tuple[Order, Order]) -> None:
    Order.objects.filter(pk=both[1].pk).update(origin="redraw")
    card = transaction(client_of, both[0])
    assert "Redraw" in card and "account" not in card


def ask(marker_id: int, question: dict[str, Any]) -> None:
    record = json.dumps({"aoe": {"questions": [question]}})
    Marker.objects.filter(pk=marker_id).update(has_questions=True, record=record)


def answered(answer: str = "12") -> None:
    """The canceled order asked for the second marker, and its question was answered."""
    made = former(lab_test_id=None, record=json.dumps({"lab_test": {"markers": [{"id": 2}]}}))
    given = {"marker_id": 2, "question_id": QUESTION["id"], "answer": answer}
    requested(made, ACCOUNT, aoe_answers=[given])


@pytest.mark.parametrize("begin", ["replaces", "repeat"])
def test_answers_of_the_canceled_order_are_filled_in(client_of: Client, begin: str) -> None:
    answered()
    page = client_of.get(page_of(client_of), {begin: FORMER})
    assert page.context["order_request"].value(f"q-2-{QUESTION['id']}") == "12"
    shown = page.content.decode()
    assert 'value="12"' in shown
    hint = "Answers from the canceled order are filled in where the same question is asked."
    assert (hint in shown) is (begin == "replaces")


def test_answers_are_filled_in_by_the_code_of_a_question(client_of: Client) -> None:
    """Another marker asks the same; what was emptied meanwhile stays empty."""
    answered()
    ask(2, {**QUESTION, "code": "WEEKS"})
    ask(1, {**QUESTION, "id": 5, "code": "WEEKS"})
    values = typed(tests=[], markers=["1"], replaces=FORMER)
    page = client_of.post(page_of(client_of), values, headers={"HX-Request": "true"})
    assert page.context["order_request"].value("q-1-5") == "12"
    values["q-1-5"] = ""
    page = client_of.post(page_of(client_of), values, headers={"HX-Request": "true"})
    assert page.context["order_request"].value("q-1-5") == ""


def test_an_answer_that_is_no_choice_any_more_is_given_again(client_of: Client) -> None:
    answered()
    ask(2, {**QUESTION, "answers": [{"code": "Y", "value": "Yes"}]})
    page = client_of.get(page_of(client_of), {"replaces": FORMER})
    assert page.context["order_request"].value(f"q-2-{QUESTION['id']}") == ""


def test_unknown_answers_must_be_given_again(client_of: Client) -> None:
    answered()
    CommandRecord.objects.all().delete()
    page = client_of.get(page_of(client_of), {"replaces": FORMER}).content.decode()
    assert "The answers given with the canceled order are not known here. Give them again." in page


def account_fact(client: Client, shown: Order) -> str:
    """What the page of an order says of its lab account."""
    page = client.get(reverse("orders:detail", args=[shown.pk])).content.decode()
    _, _, fact = page.partition("<dt>Lab account</dt><dd>")
    return strip_tags(fact.partition("</dd>")[0])


def test_the_page_shows_the_requested_account(client_of: Client) -> None:
    made = former(low_level_status="ordered", order_transaction_id=None)
    requested(made, ACCOUNT)
    number = str(ACCOUNT)[:6]
    expected = f"Requested under Made-up account, number {number}"
    assert account_fact(client_of, made) == expected
    LabAccount.objects.all().delete()
    expected = "Requested under an account that is no longer listed"
    assert account_fact(client_of, made) == expected


def test_the_page_of_an_order_from_elsewhere_knows_no_account(client_of: Client) -> None:
    made = former(low_level_status="ordered")
    assert account_fact(client_of, made) == "Not known"
    requested(made, None)
    assert account_fact(client_of, made) == "None named in the request"
