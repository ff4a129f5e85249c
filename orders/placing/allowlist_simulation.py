"""Simulation of a lab account's allowlist: which recent orders a changed list would have refused.

If an order names no account, the service takes the team's only active account at the lab. So a
change of the allowlist also changes the default account of orders (orders.md 2.9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.utils.translation import gettext

from backoffice.core import vocabulary
from backoffice.core.service_team import mirror_team
from labs.account_catalogs import AccountCatalog, catalogs_by_account
from labs.models import LabAccount, LabTest, Marker
from orders.models import Order
from orders.placing.requested_accounts import OrderSource, order_sources

DAYS: Final = 90
MAX_ORDERS: Final = 2_000
"""Most orders that are replayed, newest first. A busy lab has more in the period."""
_COLUMNS: Final = (
    "created_at",
    "user_id",
    "lab_test_id",
    "lab_test_name",
    "patient_first_name",
    "patient_last_name",
)


@dataclass(frozen=True, slots=True)
class RefusedOrder:
    """An order that would be refused, and why. `is_new`: only after the change."""

    order: Order
    reason: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """The team's recent orders at a lab, placed again.

    `unknown`: number of orders whose request is not known, because they were placed elsewhere or
    their request is deleted (`outbox.maintenance.erase_contents`). Their account is not known
    either, so they are refused only if no active account offers what was ordered. `must_choose`:
    how many of these did not need an account before, but would have to name one because several
    `choices` become active. `is_capped`: there are older orders.
    """

    total: int
    is_capped: bool
    unknown: int
    refused: Sequence[RefusedOrder]
    must_choose: int
    choices: Sequence[LabAccount]

    @property
    def refused_already(self) -> int:
        return sum(not order.is_new for order in self.refused)


def replay(account: LabAccount, is_allowed: bool, now: datetime) -> Replay:
    """Return the outcome for orders if the team is, or is not, on the account's allowlist.

    The orders are those of the team at the lab of `account`. A redraw is not a request, so it is
    not replayed.
    """
    newest = (
        Order.objects.filter(
            lab_slug=account.lab, created_at__gte=now - timedelta(days=DAYS), missing_since=None
        )
        .exclude(origin="redraw")
        .order_by("-created_at", "-id")
        .only(*_COLUMNS)
    )
    orders = list(newest[: MAX_ORDERS + 1])
    is_capped, orders = len(orders) > MAX_ORDERS, orders[:MAX_ORDERS]
    our_team = mirror_team()
    at_lab = LabAccount.objects.filter(lab=account.lab, missing_since=None).defer("record")
    allowed = at_lab.filter(teams__team_id=our_team).in_bulk() if our_team else {}
    other_allowed = {key: other for key, other in allowed.items() if key != account.pk}
    if is_allowed:
        other_allowed[account.pk] = account
    sources = order_sources(orders)
    items = _Items.load({**allowed, account.pk: account}, orders, sources)
    refused = []
    must_choose = 0
    choices = sorted(_active(other_allowed), key=str)
    is_choice_new = len(choices) > 1 and len(_active(allowed)) <= 1
    for order in orders:
        source = sources.get(order.pk)
        if reason := _refusal(order, source, other_allowed, items, allowed):
            already = bool(_refusal(order, source, allowed, items, allowed))
            refused.append(RefusedOrder(order, reason, is_new=not already))
        elif source is None and is_choice_new:
            must_choose += 1
    unknown = len(orders) - len(sources)
    return Replay(len(orders), is_capped, unknown, refused, must_choose, choices)


@dataclass(frozen=True, slots=True)
class _Items:
    """The accounts of the lab, what they offer, and the names of what was ordered."""

    accounts: Mapping[UUID, LabAccount]
    catalogs_by_account: Mapping[UUID, AccountCatalog]
    tests: Mapping[UUID, str]
    markers: Mapping[int, str]

    @classmethod
    def load(
        cls,
        accounts: Mapping[UUID, LabAccount],
        orders: Sequence[Order],
        sources: Mapping[UUID, OrderSource],
    ) -> _Items:
        test_ids = {order.lab_test_id for order in orders if order.lab_test_id}
        test_ids |= {key for source in sources.values() for key in source.lab_test_ids}
        marker_ids = {key for source in sources.values() for key in source.marker_ids}
        # The service generates tests for combinations. No account lists these.
        listed = LabTest.objects.filter(pk__in=test_ids, auto_generated=False)
        tests = dict(listed.values_list("pk", "name"))
        markers: dict[int, str] = {}
        if marker_ids:
            markers = dict(Marker.objects.filter(pk__in=marker_ids).values_list("pk", "name"))
        return cls(
            accounts,
            catalogs_by_account(list(accounts), list(tests), list(markers)),
            tests,
            markers,
        )

    def lacking(self, account: LabAccount, order: Order, source: OrderSource | None) -> list[str]:
        """Return the names of what the account does not offer, as far as its catalog is known."""
        catalog = self.catalogs_by_account[account.pk]
        test_ids: Sequence[UUID] = [order.lab_test_id] if order.lab_test_id else []
        if source and (source.lab_test_ids or source.marker_ids):
            test_ids = source.lab_test_ids
        tests = catalog.lacks_tests([key for key in test_ids if key in self.tests])
        marker_ids = source.marker_ids if source else ()
        markers = catalog.lacks_markers([key for key in marker_ids if key in self.markers])
        return [self.tests[key] for key in tests] + [self.markers[key] for key in markers]


def _refusal(
    order: Order,
    source: OrderSource | None,
    allowed: Mapping[UUID, LabAccount],
    items: _Items,
    allowed_now: Mapping[UUID, LabAccount],
) -> str:
    """Return why the order is refused if the team may use the `allowed` accounts.

    Empty if it is not refused, or if that is not known.
    """
    if source and source.account_id:
        named = items.accounts.get(source.account_id)
        if source.account_id not in allowed:
            if named is None:
                return ""
            return gettext("Our team is not allowed to use the order’s account, %(account)s.") % {
                "account": named
            }
        account = allowed[source.account_id]
        accepted = ("active", "pending") if source.is_import else ("active",)
        if account.status not in accepted:
            status = gettext(vocabulary.term("lab_account.status", account.status).label).lower()
            return gettext("The order’s account, %(account)s, is %(status)s.") % {
                "account": account,
                "status": status,
            }
    else:
        if not allowed:
            if not allowed_now:
                return ""
            return gettext("Our team is not allowed to use any account at this lab.")
        active = _active(allowed)
        if not active:
            return gettext("Our team has no active account at this lab.")
        if source is None:
            # It may have named any account, or would have to name one after the change.
            return _lacking_everywhere(order, active, items)
        if len(active) > 1:
            names = ", ".join(sorted(map(str, active)))
            return gettext(
                "The order names no account, and %(count)s are active: %(accounts)s."
            ) % {
                "count": len(active),
                "accounts": names,
            }
        account = active[0]
    return _lacking(account, order, source, items)


def _lacking(account: LabAccount, order: Order, source: OrderSource | None, items: _Items) -> str:
    lacking = items.lacking(account, order, source)
    if not lacking:
        return ""
    return gettext("%(account)s does not offer %(tests)s.") % {
        "account": account,
        "tests": ", ".join(lacking),
    }


def _lacking_everywhere(order: Order, accounts: Sequence[LabAccount], items: _Items) -> str:
    """Return why every one of the accounts refuses an order; empty if one of them may offer it."""
    reasons = [_lacking(account, order, None, items) for account in sorted(accounts, key=str)]
    return " ".join(reasons) if all(reasons) else ""


def _active(accounts: Mapping[UUID, LabAccount]) -> list[LabAccount]:
    return [account for account in accounts.values() if account.status == "active"]
