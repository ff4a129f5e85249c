"""Panels and markers to choose from, by name or test code, and the most ordered ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext

from labs.models import Lab, LabAccount, LabAccountMarker, LabAccountTest, LabTest, Marker
from orders.models import Order
from orders.placing.account_offers import AccountOffers, account_name
from orders.placing.order_request import OrderRequest

MAX_SHOWN: Final = 10
MISSING_SHOWN: Final = 5
RECENT_ORDERS: Final = 500
"""Number of newest orders in which the most ordered tests are counted."""
WORD_LETTERS: Final = 100
MAX_NAMED: Final = 3
"""Most accounts that a reason names."""

Orderable = TypeVar("Orderable", LabTest, Marker)


@dataclass(frozen=True, slots=True)
class NotOffered:
    """A test or marker that cannot be chosen, and why."""

    name: str
    reason: str
    """Why it cannot be ordered; empty if it can, or if a catalog is not known."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Tests and markers to choose from.

    `usual`: these are the most ordered ones, because nothing was searched for. `missing`: matches
    that the account, or every usable account, does not offer.
    """

    tests: list[LabTest]
    markers: list[Marker]
    usual: bool = False
    missing: list[NotOffered] = field(default_factory=list)


def choices(order_request: OrderRequest, word: str) -> Choices:
    """Return what matches the typed word.

    The search covers the lab that is already chosen, or else every lab that can be used.
    """
    word = word.replace("\x00", "").strip()[:WORD_LETTERS]
    accounts = _TeamAccounts(order_request)
    tests = _tests(order_request, accounts)
    if not word:
        return Choices(_most_ordered(tests, accounts), [], usual=True)
    coded = Q(test_markers__marker__provider_id__istartswith=word)
    named = tests.filter(Q(name__icontains=word) | Q(slug__icontains=word) | coded).distinct()
    code = Q(provider_id__istartswith=word)
    markers = _markers(order_request, accounts).filter(Q(name__icontains=word) | code)
    matching_tests = _prefix_matches_first(list(named[: 5 * MAX_SHOWN]), word)
    matching_markers = _prefix_matches_first(list(markers[: 5 * MAX_SHOWN]), word)
    offers = accounts.offers(matching_tests, matching_markers)
    offered_tests, missing = accounts.split_offered(offers, matching_tests)
    offered_markers, missing_markers = accounts.split_offered(offers, matching_markers)
    return Choices(
        offered_tests[:MAX_SHOWN],
        offered_markers[:MAX_SHOWN],
        missing=[*missing, *missing_markers][:MISSING_SHOWN],
    )


class _TeamAccounts:
    """The accounts that may be used: that of the order, else all usable ones at a lab."""

    def __init__(self, order_request: OrderRequest) -> None:
        self.chosen = order_request.account
        rows = LabAccount.objects.filter(
            teams__team_id=order_request.patient.team_id, missing_since=None
        )
        rows = rows.order_by("account_name", "provider_account_id", "pk")
        rows = rows.defer("record", "content_hash")
        accounts = [account for account in rows if account != order_request.incorrect_account]
        self.usable = [
            account for account in accounts if account.status in order_request.usable_statuses
        ]
        self.closed_labs = {account.lab for account in accounts} - {
            account.lab for account in self.usable
        }

    def offers(self, tests: Sequence[LabTest], markers: Sequence[Marker]) -> AccountOffers:
        return AccountOffers.read(self._of(None), tests, markers)

    def reason(self, offers: AccountOffers, item: LabTest | Marker) -> str:
        """Return why it cannot be ordered; empty if it can, or if a catalog is not known."""
        accounts = self._of(item.lab)
        tests, markers = ([item], []) if isinstance(item, LabTest) else ([], [item])
        if not accounts or not all(offers.lacks(account, tests, markers) for account in accounts):
            return ""
        names = [account_name(account) for account in accounts[:MAX_NAMED]]
        return gettext("Not offered by %(accounts)s") % {"accounts": ", ".join(names)}

    def split_offered(
        self, offers: AccountOffers, items: Sequence[Orderable]
    ) -> tuple[list[Orderable], list[NotOffered]]:
        """Return the items that can be ordered, and the others with the reason."""
        reasons = [(item, self.reason(offers, item)) for item in items]
        return (
            [item for item, reason in reasons if not reason],
            [NotOffered(item.name, reason) for item, reason in reasons if reason],
        )

    def _of(self, lab: Lab | None) -> list[LabAccount]:
        """Return the accounts at the lab; all accounts if the lab is not known."""
        accounts = [self.chosen] if self.chosen else self.usable
        return [account for account in accounts if lab is None or account.lab == lab.slug]


def _prefix_matches_first(matches: list[Orderable], word: str) -> list[Orderable]:
    """Move names that begin with the word to the front."""
    matches.sort(key=lambda match: not match.name.lower().startswith(word.lower()))
    return matches


def _tests(order_request: OrderRequest, accounts: _TeamAccounts) -> QuerySet[LabTest]:
    rows = LabTest.objects.filter(
        _at_labs(order_request, accounts), status="active", missing_since=None
    )
    rows = rows.exclude(auto_generated=True).exclude(
        pk__in=[test.pk for test in order_request.tests]
    )
    members = LabAccountTest.objects.filter(lab_test=OuterRef("pk"))
    return _offered_first(rows, members, accounts).select_related("lab")


def _markers(order_request: OrderRequest, accounts: _TeamAccounts) -> QuerySet[Marker]:
    rows = Marker.objects.filter(
        _at_labs(order_request, accounts), a_la_carte_enabled=True, missing_since=None
    )
    rows = rows.exclude(is_orderable=False).exclude(
        pk__in=[marker.pk for marker in order_request.markers]
    )
    members = LabAccountMarker.objects.filter(marker=OuterRef("pk"))
    return _offered_first(rows, members, accounts).select_related("lab")


def _offered_first(
    rows: QuerySet[Orderable],
    members: QuerySet[LabAccountTest] | QuerySet[LabAccountMarker],
    accounts: _TeamAccounts,
) -> QuerySet[Orderable]:
    """Sort by name, with what the account of the order offers first."""
    rows = rows.defer("record", "content_hash")
    account = accounts.chosen
    if account is None or account.catalog_read_at is None:
        return rows.order_by("name", "pk")
    offered = Exists(members.filter(account=account))
    return rows.annotate(is_offered=offered).order_by("-is_offered", "name", "pk")


def _at_labs(order_request: OrderRequest, accounts: _TeamAccounts) -> Q:
    """Return the condition for the chosen lab, or for all labs where the team can use an account.

    A test without a lab may be at any lab.
    """
    if order_request.lab is not None:
        return Q(lab=order_request.lab) | Q(lab=None)
    return ~Q(lab__in=Lab.objects.filter(slug__in=accounts.closed_labs))


def _most_ordered(tests: QuerySet[LabTest], accounts: _TeamAccounts) -> list[LabTest]:
    newest = Order.objects.order_by("-created_at", "-pk").values_list("lab_test_id", flat=True)
    often = Counter(newest[:RECENT_ORDERS])
    ordered = tests.filter(pk__in=[pk for pk, _ in often.most_common(3 * MAX_SHOWN)])
    offered = _offered(ordered, accounts) or _offered(tests[: 5 * MAX_SHOWN], accounts)
    return sorted(offered, key=lambda test: (-often[test.pk], test.name))[:MAX_SHOWN]


def _offered(tests: QuerySet[LabTest], accounts: _TeamAccounts) -> list[LabTest]:
    test_list = list(tests)
    return accounts.split_offered(accounts.offers(test_list, []), test_list)[0]
