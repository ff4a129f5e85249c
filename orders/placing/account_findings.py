"""Findings about the lab account: whether it can be used, and whether it offers what is ordered.

The account decides which lab tests and markers are available (specification, lab catalog and
accounts). An account with an unknown catalog never stops an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from django.utils.translation import gettext

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
        words = gettext("The canceled order used this account. Choose another account.")
        return Finding("incorrect account", words, "lab_account")
    if incorrect is not None and not usable:
        words = gettext(
            "No account other than the canceled order’s can be used at %(lab)s. "
            "Choose a test from another lab."
        ) % {"lab": order_request.lab.name}
        return Finding("no other account", words, "panel")
    if order_request.accounts and not usable:
        words = gettext(
            "No account can be used at %(lab)s. The service would refuse the order."
        ) % {"lab": order_request.lab.name}
        return Finding("no active account", words, "panel")
    if order_request.account is None and chosen:
        words = gettext("This account cannot be used at this lab. Choose another account.")
        return Finding("account", words, "lab_account")
    return None


def _not_chosen(order_request: OrderRequest) -> Finding | None:
    assert order_request.lab is not None
    usable = order_request.usable_accounts
    if order_request.account is not None or not usable:
        return None
    if all(order_request.lacks(account) for account in usable):
        lacking = "; ".join(
            gettext("%(account)s does not offer %(tests)s")
            % {
                "account": account_name(account),
                "tests": join_with_and(order_request.lacks(account)),
            }
            for account in usable
        )
        words = gettext("No account at %(lab)s offers everything ordered: %(details)s.") % {
            "lab": order_request.lab.name,
            "details": lacking,
        }
        return Finding(NOT_OFFERED, words, "panel")
    if order_request.replaces:
        words = gettext("This order replaces one at the wrong lab. Choose the account again.")
        return Finding("account anew", words, "lab_account")
    names = "; ".join(
        account_label(order_request, account) for account in order_request.accounts_by_offer
    )
    words = gettext("%(count)s accounts can be used at %(lab)s. Choose one: %(accounts)s.") % {
        "count": len(usable),
        "lab": order_request.lab.name,
        "accounts": names,
    }
    return Finding("several accounts", words, "lab_account")


def _catalog(order_request: OrderRequest, account: LabAccount) -> Iterator[Finding]:
    """Yield findings on what the account does not offer, and on accounts that offer everything."""
    if not order_request.tests and not order_request.markers:
        return
    name = account_name(account)
    lacks = order_request.lacks(account)
    if not lacks:
        if not order_request.is_checked(account):
            words = gettext("Could not check what %(account)s offers.") % {"account": name}
            yield Finding(NOT_CHECKED, words, "lab_account", WARN)
        return
    offering_all = [
        other for other in order_request.accounts_by_offer if order_request.offers_all(other)
    ]
    words = gettext("%(account)s does not offer %(tests)s.") % {
        "account": name,
        "tests": join_with_and(lacks),
    }
    if offering_all:
        names = join_with_and([account_name(other) for other in offering_all])
        more = gettext("Accounts that offer everything ordered: %(accounts)s.") % {
            "accounts": names
        }
        yield Finding(NOT_OFFERED, f"{words} {more}", "lab_account")
    else:
        more = gettext("No other account at the lab is known to offer everything ordered.")
        yield Finding(NOT_OFFERED, f"{words} {more}", "panel")


def _unknown_lab_warning(order_request: OrderRequest) -> Iterator[Finding]:
    """Yield a warning that the service chooses the account.

    A test need not name a lab (catalogue.md 2).
    """
    if order_request.tests and not order_request.labs:
        words = gettext(
            "The lab for %(tests)s is unknown, so the service chooses the lab account."
        ) % {"tests": order_request.words}
        yield Finding("account by service", words, "panel", WARN)
