"""Orders that replace one at the wrong lab: update reason INCORRECT_LAB (specification, notes on
states and transitions; the field is `SANDBOX_ORDER_REASON_FIELD`)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Case, Exists, OuterRef, When

from sandbox import order_store, world_loop
from sandbox.api import order_rules
from sandbox.api.errors import Refusal
from sandbox.api.order_bodies import INCORRECT_LAB
from sandbox.models import Lab, LabAccount, LabTest, Order, User
from sandbox.states import OrderState
from sandbox.transitions import CANCELLED


def is_wanted(body: dict[str, Any]) -> bool:
    """Return whether a new order gives the update reason."""
    return body.get(settings.ORDER_REASON_FIELD) == INCORRECT_LAB


def former_order(user: User, test: LabTest) -> OrderState:
    """Lock and return the order that a new one of this test replaces; 400 without one.

    No parameter names it (orders.md 2.11). It is a canceled order of the patient that no order
    replaces yet: one of the same test if there is one, else the one canceled last. Needs an open
    database transaction.
    """
    # Two requests at once do not replace the same order. Other orders of the user can be placed
    # meanwhile: their rows lock its key only.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    replacing = Order.objects.filter(
        transaction=OuterRef("transaction"), parent_id=OuterRef("id"), origin="recreation"
    )
    canceled = Order.objects.filter(user=user, low_level_status__in=CANCELLED)
    found = (
        canceled.exclude(Exists(replacing))
        .order_by(Case(When(lab_test=test, then=0), default=1), "-last_event_at", "-number")
        .first()
    )
    if found is None:
        raise Refusal(400, "The patient has no canceled order to replace")
    world_loop.lock_moves("pg_advisory_xact_lock_shared")
    [group] = order_store.lock_groups("id = %s", [str(found.id)], 1, wait=True)
    [state] = [each for each in group if each.id == str(found.id)]
    return state


def fresh_account(team: UUID, lab: Lab, key: UUID | None, former: OrderState) -> LabAccount | None:
    """Resolve an account that is not the former order's, also where the request names that one;
    400 where there is no other."""
    incorrect = UUID(former.lab_account_id) if former.lab_account_id else None
    named = None if key == incorrect else key
    account = order_rules.choose_account(team, lab, named, incorrect=incorrect)
    if account is None and incorrect is None and _is_of(former, lab):
        raise Refusal(400, f"No other lab account of {lab.slug} is active")
    return account


def _is_of(order: OrderState, lab: Lab) -> bool:
    return LabTest.objects.filter(pk=order.lab_test_id, lab=lab).exists()
