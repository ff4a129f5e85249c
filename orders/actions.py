"""What a user may do with an order now, as links on its page and on its cards."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.urls import reverse
from django.utils.translation import gettext

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from orders.commands.order_changes import CANCELABLE_STATUSES, DATABLE_STATUSES
from orders.models import Order
from orders.rules import appointment_rules


@dataclass(frozen=True, slots=True)
class OrderAction:
    """A link to something that a user may do with an order.

    `drawer`: it opens beside the page. `elsewhere`: it leads to another website. `key`: its
    shortcut on the page of the order.
    """

    label: str
    url: str
    primary: bool = False
    drawer: bool = False
    elsewhere: bool = False
    key: str = ""


def order_actions(order: Order, user: User | AnonymousUser) -> list[OrderAction]:
    """Return what this user may do with the order now, the most likely action first."""
    low, pk = order.low_level_status, order.pk
    if order.missing_since:
        return []
    actions: list[OrderAction] = []

    def offer(
        label: str, page: str, *, key: str = "", primary: bool = False, drawer: bool = False
    ) -> None:
        actions.append(OrderAction(label, reverse(page, args=[pk]), primary, drawer, key=key))

    if may(user, "appointments.change", "patients.view") and not appointment_rules.why_not_book(
        order
    ):
        home = order.method == "at_home_phlebotomy"
        offer(gettext("Book visit"), "orders:book", key="b", primary=home, drawer=True)
    if may(user, "orders.change"):
        if order.method == "on_site_collection" and low.startswith("requisition_"):
            offer(gettext("Mark sample as drawn"), "orders:drawn", key="d", primary=True)
        if order.activate_by is not None and low in DATABLE_STATUSES:
            offer(gettext("Change release date"), "orders:activation")
        if low in CANCELABLE_STATUSES.get(order.method, frozenset()):
            offer(gettext("Cancel order…"), "orders:cancel", key="x")
    if settings.MANAGEMENT_ENV != "production" and may(user, "orders.simulate"):
        offer(gettext("Simulate…"), "orders:simulate")
    return actions
