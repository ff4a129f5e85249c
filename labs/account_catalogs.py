"""The catalogs of lab accounts, as last read from the service.

The lab account decides which lab tests and markers can be ordered (specification, "Lab catalog
and accounts"). The mirror may have an old catalog or none. A test or marker that could not be
checked is never reported as lacking.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from backoffice.core import prepared_queries
from backoffice.pages.paging.counts import Count, capped_count
from labs.models import (
    LabAccount,
    LabAccountMarker,
    LabAccountTest,
    LabTest,
    LabTestQuerySet,
    Marker,
    MarkerQuerySet,
    is_current,
)

_CATALOGS: Final = """
SELECT account.id, account.catalog_read_at,
 ARRAY(SELECT offered.lab_test_id FROM labs_labaccounttest offered
  WHERE offered.account_id = account.id AND offered.lab_test_id = ANY(%(tests)s::uuid[])),
 ARRAY(SELECT offered.marker_id FROM labs_labaccountmarker offered
  WHERE offered.account_id = account.id AND offered.marker_id = ANY(%(markers)s::bigint[])),
 ARRAY(SELECT test.id FROM labs_labtest test
  WHERE test.id = ANY(%(tests)s::uuid[]) AND test.as_of > account.catalog_read_at),
 ARRAY(SELECT marker.id FROM labs_marker marker
  WHERE marker.id = ANY(%(markers)s::bigint[]) AND marker.as_of > account.catalog_read_at)
FROM labs_labaccount account WHERE account.id = ANY(%(accounts)s::uuid[])
"""
MAX_NAMED: Final = 10
"""Most lacking lab tests and markers that the page of an account lists by name."""


@dataclass(frozen=True, slots=True)
class AccountCatalog:
    """The requested lab tests and markers that an account offers.

    `read_at`: when its lists were read; None if never or too long ago. `newer_tests` and
    `newer_markers` are not offered, but were added or changed since then. So it is not known yet
    whether the account lacks them.
    """

    account_id: UUID
    read_at: datetime | None = None
    lab_tests: frozenset[UUID] = frozenset()
    markers: frozenset[int] = frozenset()
    newer_tests: frozenset[UUID] = frozenset()
    newer_markers: frozenset[int] = frozenset()

    @property
    def is_known(self) -> bool:
        return self.read_at is not None

    def lacks_tests(self, lab_test_ids: Iterable[UUID]) -> list[UUID]:
        """Return the tests that the account does not offer; empty if the catalog is not known."""
        if not self.is_known:
            return []
        return [key for key in lab_test_ids if key not in self.lab_tests | self.newer_tests]

    def lacks_markers(self, marker_ids: Iterable[int]) -> list[int]:
        """Return the markers that the account does not offer; empty if the catalog is not known."""
        if not self.is_known:
            return []
        return [key for key in marker_ids if key not in self.markers | self.newer_markers]


def catalogs_by_account(
    account_ids: Collection[UUID],
    lab_test_ids: Collection[UUID] = (),
    marker_ids: Collection[int] = (),
) -> dict[UUID, AccountCatalog]:
    """Return the catalog of each account, restricted to these lab tests and markers, by one query.

    An account that is not in the mirror, or whose lists have not been read for days, has a catalog
    that is not known.
    """
    catalogs = {key: AccountCatalog(key) for key in account_ids}
    if not catalogs:
        return catalogs
    values = {
        "accounts": prepared_queries.array(catalogs),
        "tests": prepared_queries.array(lab_test_ids),
        "markers": prepared_queries.array(marker_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_CATALOGS, values)
        for key, read_at, *members in cursor.fetchall():
            tests, markers, newer_tests, newer_markers = map(frozenset, members)
            if not is_current(read_at):
                continue
            catalogs[key] = AccountCatalog(
                key, read_at, tests, markers, newer_tests - tests, newer_markers - markers
            )
    return catalogs


@dataclass(frozen=True, slots=True)
class CatalogPart:
    """The active lab tests, or the markers, of a lab: those that one account offers and lacks."""

    tests: bool
    """Whether these are lab tests."""
    offered: LabTestQuerySet | MarkerQuerySet
    lacking: LabTestQuerySet | MarkerQuerySet

    @property
    def offered_count(self) -> Count:
        return capped_count(self.offered)

    @property
    def lacking_count(self) -> Count:
        return capped_count(self.lacking)

    @property
    def first_lacking(self) -> Sequence[LabTest | Marker]:
        """Return the first few lacking tests or markers by name, for the page of the account."""
        return list(self.lacking.order_by("name", "id")[:MAX_NAMED])


def compare_tests(account: LabAccount) -> CatalogPart:
    """Return the active lab tests that the account offers, and those of its lab that it lacks."""
    rows = LabTest.objects.filter(status="active", missing_since=None).defer("record")
    is_offered = Exists(LabAccountTest.objects.filter(account=account, lab_test=OuterRef("pk")))
    return CatalogPart(
        True, rows.filter(is_offered), rows.filter(~is_offered, lab__slug=account.lab)
    )


def compare_markers(account: LabAccount) -> CatalogPart:
    """Return the markers that the account offers, and those of its lab that it lacks.

    A marker that no account offers and that is no add-on does not count as lacking. Such markers,
    for example reflex markers, cannot be ordered by themselves anywhere.
    """
    rows = Marker.objects.filter(missing_since=None).defer("record")
    is_offered = Exists(LabAccountMarker.objects.filter(account=account, marker=OuterRef("pk")))
    is_offered_anywhere = Exists(LabAccountMarker.objects.filter(marker=OuterRef("pk")))
    lacking = rows.filter(~is_offered, lab__slug=account.lab).exclude(is_orderable=False)
    lacking = lacking.filter(Q(a_la_carte_enabled=True) | is_offered_anywhere)
    return CatalogPart(False, rows.filter(is_offered), lacking)
