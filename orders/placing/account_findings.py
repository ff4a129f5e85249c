"""Findings about the lab account: whether it can be used, and whether it offers what is ordered.

The account decides which lab tests and markers are available (specification, lab catalog and
accounts). An account with an unknown catalog never stops an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from backoffice.core.text import join_with_and
from labs.models import LabAccount
from orders.placing.account_offers import account_name
from orders.placing.finding_type import WARN, Finding
from orders.placing.forms import account_label
from orders.placing.order_request import OrderRequest

NOT_OFFERED: Final = "not offered"
NOT_CHECKED: Final = "account not checked"


def account_findings(order_request: OrderRequest) -> Iterator[Finding]:
    """Yield findings, of which at most one stops the order.

    An order is stopped if the account cannot be used, is not chosen, or does not offer what is
    ordered.
    """
    if order_request.lab is None:
        yield from _unknown_lab_warning(order_request)
    elif (finding := _cannot_be_used(order_request) or _not_chosen(order_request)) is not None:
        yield finding
    elif order_request.account is not None:
        yield from _catalog(order_request, order_request.account)


def _cannot_be_used(order_request: OrderRequest) -> Finding | None:
    assert order_request.lab is not None
    usable, chosen = order_request.usable_accounts, order_request.chosen_account
    incorrect = order_request.incorrect_account
    if incorrect is not None and chosen == str(incorrect.pk):
        words = "The canceled order was placed under this account. Choose another one."
        return Finding("incorrect account", words, "lab_account")
    if incorrect is not None and not usable:
        words = f"{order_request.lab.name} has no other account than that of the canceled order."
        return Finding("no other account", f"{words} Choose a test of another lab.", "panel")
    if order_request.accounts and not usable:
        lab = order_request.lab.name
        words = f"No account can be used at {lab}: the service would refuse the order."
        return Finding("no active account", words, "panel")
    if order_request.account is None and chosen:
        words = "The chosen account cannot be used for this lab."
        return Finding("account", words, "lab_account")
    return None


def _not_chosen(order_request: OrderRequest) -> Finding | None:
    assert order_request.lab is not None
    usable = order_request.usable_accounts
    if order_request.account is not None or not usable:
        return None
    if all(order_request.lacks(account) for account in usable):
        lacking = "; ".join(
            f"{account_name(account)} does not offer {join_with_and(order_request.lacks(account))}"
            for account in usable
        )
        words = f"No account at {order_request.lab.name} offers everything ordered: {lacking}."
        return Finding(NOT_OFFERED, words, "panel")
    if order_request.replaces:
        words = "This order replaces one at the wrong lab: choose the account again."
        return Finding("account anew", words, "lab_account")
    names = "; ".join(
        account_label(order_request, account) for account in order_request.accounts_by_offer
    )
    lab = order_request.lab.name
    words = f"{len(usable)} accounts can be used at {lab}: choose one. They are: {names}."
    return Finding("several accounts", words, "lab_account")


def _catalog(order_request: OrderRequest, account: LabAccount) -> Iterator[Finding]:
    """Yield findings on what the account does not offer, and on accounts that offer everything."""
    if not order_request.tests and not order_request.markers:
        return
    name = account_name(account)
    lacks = order_request.lacks(account)
    if not lacks:
        if not order_request.is_checked(account):
            words = f"Could not check what {name} offers."
            yield Finding(NOT_CHECKED, words, "lab_account", WARN)
        return
    offering_all = [
        other for other in order_request.accounts_by_offer if order_request.offers_all(other)
    ]
    words = f"{name} does not offer {join_with_and(lacks)}."
    if offering_all:
        names = join_with_and([account_name(other) for other in offering_all])
        words = f"{words} Accounts that offer everything ordered: {names}."
        yield Finding(NOT_OFFERED, words, "lab_account")
    else:
        words = f"{words} No other account at the lab is known to offer everything ordered."
        yield Finding(NOT_OFFERED, words, "panel")


def _unknown_lab_warning(order_request: OrderRequest) -> Iterator[Finding]:
    """Yield a warning that the service chooses the account.

    A test need not name a lab (catalogue.md 2).
    """
    if order_request.tests and not order_request.labs:
        words = (
            f"The lab of {order_request.words} is not known here, so the service picks the lab"
            " account."
        )
        yield Finding("account by service", words, "panel", WARN)
