"""What a user may do with an order now, as links on its page and on its cards."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import reverse

from backoffice.accounts.access import may
from orders.commands.order_changes import CANCELABLE_STATUSES, DATABLE_STATUSES
from orders.models import Order
from orders.rules import appointment_rules


def order_actions(order: Order, user: Any) -> list[dict[str, Any]]:
    """Return what this user may do with the order now, the most likely action first."""
    low, pk = order.low_level_status, order.pk
    if order.missing_since:
        return []
    actions: list[dict[str, Any]] = []

    def offer(label: str, page: str, **more: Any) -> None:
        actions.append({"label": label, "url": reverse(page, args=[pk]), **more})

    if may(user, "appointments.change", "patients.view") and not appointment_rules.why_not_book(
        order
    ):
        home = order.method == "at_home_phlebotomy"
        offer("Book", "orders:book", primary=home, drawer=True)
    if may(user, "orders.change"):
        if order.method == "on_site_collection" and low.startswith("requisition_"):
            offer("Sample drawn", "orders:drawn", primary=True)
        if order.activate_by is not None and low in DATABLE_STATUSES:
            offer("Change the date", "orders:activation")
        if low in CANCELABLE_STATUSES.get(order.method, frozenset()):
            offer("Cancel…", "orders:cancel")
    if settings.MANAGEMENT_ENV != "production" and may(user, "orders.simulate"):
        offer("Simulate…", "orders:simulate")
    return actions
