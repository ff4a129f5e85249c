"""What lab accounts offer of the tests and markers that are ordered, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext

from labs.account_catalogs import AccountCatalog, catalogs_by_account
from labs.models import LabAccount, LabTest, Marker


@dataclass(frozen=True)
class AccountOffers:
    """The catalogs of accounts, limited to the lab tests and markers that are compared.

    They may include further accounts, tests and markers.
    """

    catalogs_by_account: Mapping[UUID, AccountCatalog]

    @classmethod
    def read(
        cls, accounts: Iterable[LabAccount], tests: Iterable[LabTest], markers: Iterable[Marker]
    ) -> AccountOffers:
        account_ids = {account.pk for account in accounts}
        test_ids, marker_ids = {test.pk for test in tests}, {marker.pk for marker in markers}
        if not account_ids or not (test_ids or marker_ids):
            return cls({})
        return cls(catalogs_by_account(account_ids, test_ids, marker_ids))

    def is_known(
        self, account: LabAccount, tests: Sequence[LabTest], markers: Sequence[Marker]
    ) -> bool:
        """Whether the catalog shows for each of these if the account offers it."""
        catalog = self.catalogs_by_account.get(account.pk)
        if catalog is None or not catalog.is_known:
            return False
        newer_tests = catalog.newer_tests.intersection(test.pk for test in tests)
        return not newer_tests and not catalog.newer_markers.intersection(
            marker.pk for marker in markers
        )

    def lacks(
        self, account: LabAccount, tests: Sequence[LabTest], markers: Sequence[Marker]
    ) -> list[str]:
        """Return the names of what the account does not offer; empty if its catalog is unknown."""
        catalog = self.catalogs_by_account.get(account.pk)
        if catalog is None:
            return []
        missing_tests = set(catalog.lacks_tests([test.pk for test in tests]))
        missing_markers = set(catalog.lacks_markers([marker.pk for marker in markers]))
        return [
            *(test.name for test in tests if test.pk in missing_tests),
            *(marker.name for marker in markers if marker.pk in missing_markers),
        ]


def account_name(account: LabAccount) -> str:
    return account.account_name or gettext("Account %(number)s") % {
        "number": account.provider_account_id
    }
