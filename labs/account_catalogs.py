"""What lab accounts offer, as last read from the service.

The lab account decides which lab tests and markers can be ordered (specification, "Lab catalogue
and accounts"). What the mirror knows of that may be old, or nothing: nothing is ever called lacking
that could not be checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from backoffice.core import prepared_queries
from backoffice.pages.paging.counts import Count, capped_count
from labs.models import (
    LabAccount,
    LabAccountMarker,
    LabAccountTest,
    LabTest,
    Marker,
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
NAMED: Final = 10
"""Lab tests and markers that an account lacks, listed by name on its page."""


@dataclass(frozen=True, slots=True)
class AccountCatalog:
    """What an account offers of the lab tests and markers that were asked about.

    `read_at`: when its lists were read, None for never or too long ago. `newer_tests` and
    `newer_markers` are not offered, but came or changed since then, so whether they are lacking is
    not known yet.
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
        """Return those that the account does not offer; none where the catalog is not known."""
        if not self.is_known:
            return []
        return [key for key in lab_test_ids if key not in self.lab_tests | self.newer_tests]

    def lacks_markers(self, marker_ids: Iterable[int]) -> list[int]:
        """Return those that the account does not offer; none where the catalog is not known."""
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
    found = {key: AccountCatalog(key) for key in account_ids}
    if not found:
        return found
    values = {
        "accounts": prepared_queries.array(found),
        "tests": prepared_queries.array(lab_test_ids),
        "markers": prepared_queries.array(marker_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_CATALOGS, values)
        for key, read_at, *members in cursor.fetchall():
            tests, markers, newer_tests, newer_markers = map(frozenset, members)
            if not is_current(read_at):
                continue
            found[key] = AccountCatalog(
                key, read_at, tests, markers, newer_tests - tests, newer_markers - markers
            )
    return found


class CatalogPart(NamedTuple):
    """What one account offers of the active lab tests, or of the markers, of its lab."""

    tests: bool
    offered: QuerySet[LabTest] | QuerySet[Marker]
    lacking: QuerySet[LabTest] | QuerySet[Marker]

    @property
    def offered_count(self) -> Count:
        return capped_count(self.offered)

    @property
    def lacking_count(self) -> Count:
        return capped_count(self.lacking)

    @property
    def first_lacking(self) -> list[Any]:
        """Return the first few by name, for the account's own page."""
        return list(self.lacking.order_by("name", "id")[:NAMED])


def compare_tests(account: LabAccount) -> CatalogPart:
    """Return the active lab tests that the account offers, and those of its lab that it lacks."""
    rows = LabTest.objects.filter(status="active", missing_since=None).defer("record")
    here = Exists(LabAccountTest.objects.filter(account=account, lab_test=OuterRef("pk")))
    return CatalogPart(True, rows.filter(here), rows.filter(~here, lab__slug=account.lab))


def compare_markers(account: LabAccount) -> CatalogPart:
    """Return the markers that the account offers, and those of its lab that it lacks.

    Markers that no account offers and that are no add-ons can be ordered nowhere on their own, as
    reflex markers: no account lacks them.
    """
    rows = Marker.objects.filter(missing_since=None).defer("record")
    here = Exists(LabAccountMarker.objects.filter(account=account, marker=OuterRef("pk")))
    anywhere = Exists(LabAccountMarker.objects.filter(marker=OuterRef("pk")))
    lacking = rows.filter(~here, lab__slug=account.lab).exclude(is_orderable=False)
    return CatalogPart(
        False, rows.filter(here), lacking.filter(Q(a_la_carte_enabled=True) | anywhere)
    )
