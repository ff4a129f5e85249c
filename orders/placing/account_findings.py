"""Findings about the lab account: whether it can be used, and offers what is ordered.

The account decides which lab tests and markers are available (specification, lab catalog and
accounts). One with an unknown catalog never stops an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from backoffice.core.text import joined
from labs.models import LabAccount
from orders.placing.account_offers import account_name
from orders.placing.finding_type import WARN, Finding
from orders.placing.forms import account_label
from orders.placing.order_request import Wish

NOT_OFFERED: Final = "not offered"
NOT_CHECKED: Final = "account not checked"


def account_findings(wish: Wish) -> Iterator[Finding]:
    """At most one that stops the order: the account cannot be used, is not chosen, or does not
    offer what is ordered."""
    if wish.lab is None:
        yield from _of_unknown_lab(wish)
    elif (found := _cannot_be_used(wish) or _not_chosen(wish)) is not None:
        yield found
    elif wish.account is not None:
        yield from _catalog(wish, wish.account)


def _cannot_be_used(wish: Wish) -> Finding | None:
    assert wish.lab is not None
    usable, chosen = wish.usable_accounts, wish.chosen_account
    incorrect = wish.incorrect_account
    if incorrect is not None and chosen == str(incorrect.pk):
        words = "The canceled order was placed under this account. Choose another one."
        return Finding("incorrect account", words, "lab_account")
    if incorrect is not None and not usable:
        words = f"{wish.lab.name} has no other account than that of the canceled order."
        return Finding("no other account", f"{words} Choose a test of another lab.", "panel")
    if wish.accounts and not usable:
        words = f"No account can be used at {wish.lab.name}: the service would refuse the order."
        return Finding("no active account", words, "panel")
    if wish.account is None and chosen:
        words = "The chosen account cannot be used for this lab."
        return Finding("account", words, "lab_account")
    return None


def _not_chosen(wish: Wish) -> Finding | None:
    assert wish.lab is not None
    usable = wish.usable_accounts
    if wish.account is not None or not usable:
        return None
    if all(wish.lacks(account) for account in usable):
        lacking = "; ".join(
            f"{account_name(account)} does not offer {joined(wish.lacks(account))}"
            for account in usable
        )
        words = f"No account at {wish.lab.name} offers everything ordered: {lacking}."
        return Finding(NOT_OFFERED, words, "panel")
    if wish.replaces:
        words = "This order replaces one at the wrong lab: choose the account again."
        return Finding("account anew", words, "lab_account")
    names = "; ".join(account_label(wish, account) for account in wish.accounts_by_offer)
    words = f"{len(usable)} accounts can be used at {wish.lab.name}: choose one. They are: {names}."
    return Finding("several accounts", words, "lab_account")


def _catalog(wish: Wish, account: LabAccount) -> Iterator[Finding]:
    """What the account offers of what is ordered, and which accounts offer all of it."""
    if not wish.tests and not wish.markers:
        return
    name = account_name(account)
    lacks = wish.lacks(account)
    if not lacks:
        if not wish.is_checked(account):
            words = f"Could not check what {name} offers."
            yield Finding(NOT_CHECKED, words, "lab_account", WARN)
        return
    others = [one for one in wish.accounts_by_offer if wish.offers_all(one)]
    words = f"{name} does not offer {joined(lacks)}."
    if others:
        names = joined([account_name(one) for one in others])
        words = f"{words} Accounts that offer everything ordered: {names}."
        yield Finding(NOT_OFFERED, words, "lab_account")
    else:
        words = f"{words} No other account at the lab is known to offer everything ordered."
        yield Finding(NOT_OFFERED, words, "panel")


def _of_unknown_lab(wish: Wish) -> Iterator[Finding]:
    """The service picks the account then: a test may name no lab (catalogue.md 2)."""
    if wish.tests and not wish.labs:
        words = f"The lab of {wish.words} is not known here, so the service picks the lab account."
        yield Finding("account by service", words, "panel", WARN)
