"""Lab accounts of an import table: which one a cell means, and what they offer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.core.identifiers import key
from backoffice.core.spreadsheets import damage
from labs.models import Lab, LabAccount, LabAccountTeam
from orders.placing.account_offers import AccountOffers
from orders.placing.forms import account_label, account_words
from orders.placing.order_request import Wish

LEAST_OF_ID: Final = 4
LEAST_OF_NAME: Final = 3
"""Letters from which a part of it means an account."""


def read_accounts(wishes: Sequence[Wish]) -> None:
    """Give each wish the accounts of its lab, what they offer, and the id of the account that its
    cell means, in two queries for all. A test that names no lab has one query more."""
    labs: dict[UUID, list[Lab]] = {}
    for wish in wishes:
        [test] = wish.tests
        if test.pk in labs:
            wish.__dict__["labs"] = labs[test.pk]
        labs[test.pk] = wish.labs
    entries = LabAccountTeam.objects.select_related("account").filter(
        team_id__in={wish.patient.team_id for wish in wishes},
        account__lab__in={lab.slug for found in labs.values() for lab in found},
        account__missing_since=None,
    )
    accounts: defaultdict[tuple[str, UUID], list[LabAccount]] = defaultdict(list)
    for entry in entries.order_by(
        "account__account_name", "account__provider_account_id", "account_id"
    ):
        accounts[entry.account.lab, entry.team_id].append(entry.account)
    tests = [test for wish in wishes for test in wish.tests]
    offers = AccountOffers.read([one for some in accounts.values() for one in some], tests, [])
    for wish in wishes:
        lab = wish.lab.slug if wish.lab else ""
        wish.__dict__["accounts"] = accounts.get((lab, wish.patient.team_id), [])
        wish.__dict__["offers"] = offers
        account = _account_value(wish.one("lab_account"), wish.usable_accounts)
        wish.__dict__["typed"] = {**wish.typed, "lab_account": [account]}


def _account_value(cell: str, accounts: Sequence[LabAccount]) -> str:
    """The id of the account that was meant, or what was written where that is not certain."""
    meant = _meant(cell, accounts)
    return str(meant[0].pk) if len(meant) == 1 else cell


def account_fault(cell: str, wish: Wish) -> str:
    """Why the cell means no account that can be used, and which ones can be written instead."""
    usable = "; ".join(account_label(wish, each) for each in wish.accounts_by_offer)
    if damaged := damage(cell):
        return f"{damaged} Accounts that can be used: {usable}."
    meant = _meant(cell, wish.usable_accounts)
    if len(meant) > 1:
        names = " or ".join(account_words(each) for each in meant)
        return f"“{cell}” may be several accounts: {names}. Write the number of one."
    fault = f"“{cell}” is no account that can be used here."
    if others := _meant(cell, wish.accounts):
        status = vocabulary.term("lab_account.status", others[0].status).label.lower()
        fault = f"{account_words(others[0])} cannot be used: it is {status}."
    return f"{fault} Write the name or the number of one: {usable}."


def _meant(cell: str, accounts: Sequence[LabAccount]) -> list[LabAccount]:
    """Accounts with this id, number or name; else those of which it is a part: the beginning of the
    id, or any of the name."""
    text = key(cell)
    if not text:
        return []
    whole = [one for one in accounts if text in map(key, _called(one))]
    return whole or [one for one in accounts if _is_part(text, one)]


def _called(account: LabAccount) -> tuple[str, str, str]:
    return str(account.pk), account.provider_account_id, account.account_name or ""


def _is_part(text: str, account: LabAccount) -> bool:
    of_id = len(text) >= LEAST_OF_ID and key(str(account.pk)).startswith(text)
    return of_id or (len(text) >= LEAST_OF_NAME and text in key(account.account_name or ""))
