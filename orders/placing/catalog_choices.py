"""What can be chosen: panels and markers by name or test code, and what is ordered most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet

from labs.models import Lab, LabAccount, LabAccountMarker, LabAccountTest, LabTest, Marker
from orders.models import Order
from orders.placing.account_offers import AccountOffers, account_name
from orders.placing.order_request import Wish

SHOWN: Final = 10
MISSING_SHOWN: Final = 5
LOOKED_AT: Final = 500
"""Newest orders in which the usual tests are counted."""
WORD_LETTERS: Final = 100
MOST_NAMED: Final = 3
"""Accounts that a reason names."""

Orderable = TypeVar("Orderable", LabTest, Marker)


@dataclass(frozen=True, slots=True)
class NotOffered:
    """A test or marker that cannot be chosen, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Choices:
    """`usual`: nothing was searched for; these are ordered most. `missing`: found, but the account
    does not offer it, or none that can be used does."""

    tests: list[LabTest]
    markers: list[Marker]
    usual: bool = False
    missing: list[NotOffered] = field(default_factory=list)


def choices(wish: Wish, word: str) -> Choices:
    """By the letters typed; of the lab that is chosen already, or of every lab that can be used."""
    word = word.replace("\x00", "").strip()[:WORD_LETTERS]
    accounts = _TeamAccounts(wish)
    tests = _tests(wish, accounts)
    if not word:
        return Choices(_usual(tests, accounts), [], usual=True)
    coded = Q(test_markers__marker__provider_id__istartswith=word)
    named = tests.filter(Q(name__icontains=word) | Q(slug__icontains=word) | coded).distinct()
    code = Q(provider_id__istartswith=word)
    markers = _markers(wish, accounts).filter(Q(name__icontains=word) | code)
    found_tests = _best(list(named[: 5 * SHOWN]), word)
    found_markers = _best(list(markers[: 5 * SHOWN]), word)
    offers = accounts.offers(found_tests, found_markers)
    missing = [
        NotOffered(one.name, reason)
        for one in (*found_tests, *found_markers)
        if (reason := accounts.reason(offers, one))
    ]
    return Choices(
        [one for one in found_tests if not accounts.reason(offers, one)][:SHOWN],
        [one for one in found_markers if not accounts.reason(offers, one)][:SHOWN],
        missing=missing[:MISSING_SHOWN],
    )


class _TeamAccounts:
    """The accounts under which what is searched for may be ordered: that of the order, else all
    that the team can use at a lab."""

    def __init__(self, wish: Wish) -> None:
        self.chosen = wish.account
        rows = LabAccount.objects.filter(teams__team_id=wish.patient.team_id, missing_since=None)
        rows = rows.order_by("account_name", "provider_account_id", "pk")
        rows = rows.defer("record", "content_hash")
        accounts = [one for one in rows if one != wish.incorrect_account]
        self.usable = [one for one in accounts if one.status in wish.usable_statuses]
        self.closed_labs = {one.lab for one in accounts} - {one.lab for one in self.usable}

    def offers(self, tests: Sequence[LabTest], markers: Sequence[Marker]) -> AccountOffers:
        return AccountOffers.read(self._of(None), tests, markers)

    def reason(self, offers: AccountOffers, one: LabTest | Marker) -> str:
        """Why it cannot be ordered; empty where it can, or where a catalog is not known."""
        accounts = self._of(one.lab)
        tests, markers = ([one], []) if isinstance(one, LabTest) else ([], [one])
        if not accounts or not all(offers.lacks(each, tests, markers) for each in accounts):
            return ""
        names = [account_name(each) for each in accounts[:MOST_NAMED]]
        return f"Not offered by {' or '.join(names)}"

    def _of(self, lab: Lab | None) -> list[LabAccount]:
        """Those at the lab; all where it is not known."""
        accounts = [self.chosen] if self.chosen else self.usable
        return [one for one in accounts if lab is None or one.lab == lab.slug]


def _best(found: list[Any], word: str) -> list[Any]:
    """Those that begin with the word come first."""
    found.sort(key=lambda one: not one.name.lower().startswith(word.lower()))
    return found


def _tests(wish: Wish, accounts: _TeamAccounts) -> QuerySet[LabTest]:
    rows = LabTest.objects.filter(_at_labs(wish, accounts), status="active", missing_since=None)
    rows = rows.exclude(auto_generated=True).exclude(pk__in=[test.pk for test in wish.tests])
    members = LabAccountTest.objects.filter(lab_test=OuterRef("pk"))
    return _offered_first(rows, members, accounts).select_related("lab")


def _markers(wish: Wish, accounts: _TeamAccounts) -> QuerySet[Marker]:
    rows = Marker.objects.filter(
        _at_labs(wish, accounts), a_la_carte_enabled=True, missing_since=None
    )
    rows = rows.exclude(is_orderable=False).exclude(pk__in=[one.pk for one in wish.markers])
    members = LabAccountMarker.objects.filter(marker=OuterRef("pk"))
    return _offered_first(rows, members, accounts).select_related("lab")


def _offered_first(
    rows: QuerySet[Orderable], members: QuerySet[Any], accounts: _TeamAccounts
) -> QuerySet[Orderable]:
    """By name; what the account of the order offers comes first."""
    rows = rows.defer("record", "content_hash")
    account = accounts.chosen
    if account is None or account.catalog_read_at is None:
        return rows.order_by("name", "pk")
    offered = Exists(members.filter(account=account))
    return rows.annotate(is_offered=offered).order_by("-is_offered", "name", "pk")


def _at_labs(wish: Wish, accounts: _TeamAccounts) -> Q:
    """At the lab chosen already, or at all but those where no account of the team can be used.
    What names no lab may be at any."""
    if wish.lab is not None:
        return Q(lab=wish.lab) | Q(lab=None)
    return ~Q(lab__in=Lab.objects.filter(slug__in=accounts.closed_labs))


def _usual(tests: QuerySet[LabTest], accounts: _TeamAccounts) -> list[LabTest]:
    newest = Order.objects.order_by("-created_at", "-pk").values_list("lab_test_id", flat=True)
    often = Counter(newest[:LOOKED_AT])
    ordered = tests.filter(pk__in=[pk for pk, _ in often.most_common(3 * SHOWN)])
    found = _offered(ordered, accounts) or _offered(tests[: 5 * SHOWN], accounts)
    return sorted(found, key=lambda test: (-often[test.pk], test.name))[:SHOWN]


def _offered(tests: QuerySet[LabTest], accounts: _TeamAccounts) -> list[LabTest]:
    found = list(tests)
    offers = accounts.offers(found, [])
    return [test for test in found if not accounts.reason(offers, test)]
