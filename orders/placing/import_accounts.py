"""Lab accounts of an import table: which one a cell names, and what they offer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.utils.translation import gettext

from backoffice.core import vocabulary
from backoffice.core.identifiers import comparison_key
from backoffice.core.spreadsheets import damage_message
from labs.models import Lab, LabAccount, LabAccountTeam
from orders.placing.account_offers import AccountOffers
from orders.placing.forms import account_label, account_text
from orders.placing.order_request import OrderRequest

MIN_ID_LETTERS: Final = 4
MIN_NAME_LETTERS: Final = 3
"""Fewest letters with which a part of a name identifies an account."""


def read_accounts(order_requests: Sequence[OrderRequest]) -> None:
    """Set on each request the accounts, their offers, and the id of the account in the cell.

    This takes two queries for all requests, and one more for each test without a lab.
    """
    labs: dict[UUID, list[Lab]] = {}
    for order_request in order_requests:
        [test] = order_request.tests
        if test.pk in labs:
            order_request.labs = labs[test.pk]
        labs[test.pk] = order_request.labs
    entries = LabAccountTeam.objects.select_related("account").filter(
        team_id__in={order_request.patient.team_id for order_request in order_requests},
        account__lab__in={lab.slug for matches in labs.values() for lab in matches},
        account__missing_since=None,
    )
    accounts: defaultdict[tuple[str, UUID], list[LabAccount]] = defaultdict(list)
    for entry in entries.order_by(
        "account__account_name", "account__provider_account_id", "account_id"
    ):
        accounts[entry.account.lab, entry.team_id].append(entry.account)
    tests = [test for order_request in order_requests for test in order_request.tests]
    offers = AccountOffers.read(
        [account for team_accounts in accounts.values() for account in team_accounts], tests, []
    )
    for order_request in order_requests:
        lab = order_request.lab.slug if order_request.lab else ""
        order_request.accounts = accounts.get((lab, order_request.patient.team_id), [])
        order_request.offers = offers
        account = _account_value(order_request.value("lab_account"), order_request.usable_accounts)
        order_request.typed = {**order_request.typed, "lab_account": [account]}


def _account_value(cell: str, accounts: Sequence[LabAccount]) -> str:
    """Return the id of the account in the cell, or the cell itself if that is not certain."""
    matches = _matching_accounts(cell, accounts)
    return str(matches[0].pk) if len(matches) == 1 else cell


def account_error(cell: str, order_request: OrderRequest) -> str:
    """Return why the cell names no usable account, and which accounts can be written instead."""
    usable = "; ".join(
        account_label(order_request, account) for account in order_request.accounts_by_offer
    )
    if damaged := damage_message(cell):
        usable_accounts = gettext("Accounts that can be used: %(accounts)s.") % {"accounts": usable}
        return f"{damaged} {usable_accounts}"
    matches = _matching_accounts(cell, order_request.usable_accounts)
    if len(matches) > 1:
        names = "; ".join(account_text(account) for account in matches)
        return gettext(
            "“%(text)s” matches several accounts: %(accounts)s. Enter the number of one."
        ) % {"text": cell, "accounts": names}
    fault = gettext("“%(text)s” is not an account that can be used here.") % {"text": cell}
    if unusable := _matching_accounts(cell, order_request.accounts):
        status = gettext(vocabulary.term("lab_account.status", unusable[0].status).label).lower()
        fault = gettext("%(account)s cannot be used because it is %(status)s.") % {
            "account": account_text(unusable[0]),
            "status": status,
        }
    remedy = gettext("Enter the name or number of one of these: %(accounts)s.") % {
        "accounts": usable
    }
    return f"{fault} {remedy}"


def _matching_accounts(cell: str, accounts: Sequence[LabAccount]) -> list[LabAccount]:
    """Return the accounts with this id, number or name.

    Without such an account, return those whose id begins with the cell or whose name contains it.
    """
    text = comparison_key(cell)
    if not text:
        return []
    whole = [
        account
        for account in accounts
        if text in map(comparison_key, _account_identifiers(account))
    ]
    return whole or [account for account in accounts if _is_part(text, account)]


def _account_identifiers(account: LabAccount) -> tuple[str, str, str]:
    return str(account.pk), account.provider_account_id, account.account_name or ""


def _is_part(text: str, account: LabAccount) -> bool:
    of_id = len(text) >= MIN_ID_LETTERS and comparison_key(str(account.pk)).startswith(text)
    return of_id or (
        len(text) >= MIN_NAME_LETTERS and text in comparison_key(account.account_name or "")
    )
