"""Simulation of a lab account's allowlist, for `labs`, which does not import `orders`."""

from __future__ import annotations

from typing import Any, Final

from django.utils import timezone

from backoffice.accounts.access import may
from backoffice.audit.recording import record_list
from backoffice.core.template_functions import renders
from labs.models import LabAccount
from orders.placing.allowlist_simulation import DAYS, MAX_ORDERS, replay

MAX_SHOWN: Final = 25
"""Most refused orders listed. All are counted and can be downloaded."""


@renders("orders/_replayed.html")
def replayed_orders(context: Any, account: LabAccount, is_allowed: bool) -> dict[str, Any]:
    """Show how many recent orders would be refused if the team is, or is not, on the allowlist.

    Users who may see orders also get the list of the refused orders.
    """
    request = context["request"]
    replayed = replay(account, is_allowed, timezone.now())
    listed = replayed.refused[:MAX_SHOWN] if may(request.user, "orders.view") else []
    by_name = may(request.user, "orders.view", "patients.view")
    if listed:
        orders = [one.order for one in listed]
        record_list(request, "order", [one.pk for one in orders], [one.user_id for one in orders])
    return {
        "replay": replayed,
        "listed": listed,
        "more": len(replayed.refused) - len(listed) if listed else 0,
        "by_name": by_name,
        "account": account,
        "is_allowed": is_allowed,
        "may_export": may(request.user, "orders.view", "lists.export"),
        "days": DAYS,
        "most": MAX_ORDERS,
    }
