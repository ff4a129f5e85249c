"""What lab accounts offer: mirrored from the account-scoped lists, and read for the order form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from backoffice import sync
from backoffice.models import Drift, Lookup, SyncRun
from labs import sync as labs_sync
from labs.account_catalogs import AccountCatalog, catalogs_by_account
from labs.models import LabAccount, LabAccountMarker, LabAccountTest, LabTest, Marker
from tests.sandboxes import Sandbox
from tests.sync.conftest import Point
from tests.sync.standin import Asked, Reply, forwarding

pytestmark = pytest.mark.django_db(transaction=True)

SYNCED_LISTS = {synced_list.resource: synced_list for synced_list in labs_sync.SYNCED_LISTS}
CATALOG = next(one for one in labs_sync.LOOKUP_TYPES if one.kind == labs_sync.ACCOUNT_CATALOG)
TEST, OTHER_TEST, ACCOUNT = UUID(int=1), UUID(int=2), UUID(int=9)


def walk(resource: str) -> SyncRun:
    sync.request_run(SYNCED_LISTS[resource])
    SyncRun.objects.filter(state=SyncRun.State.DUE).update(due_at=datetime.now(UTC))
    run = sync.work_on_run(SYNCED_LISTS[resource])
    assert run is not None
    return run


def read_again() -> int:
    """Read all catalogs as if the time to do so had come; how many were answered."""
    Lookup.objects.filter(kind=CATALOG.kind).update(due_at=datetime.now(UTC))
    return sync.run_due_lookups([CATALOG])


def members() -> dict[UUID, tuple[set[UUID], set[int]]]:
    found: dict[UUID, tuple[set[UUID], set[int]]] = {
        key: (set(), set()) for key in LabAccount.objects.values_list("pk", flat=True)
    }
    for account, test in LabAccountTest.objects.values_list("account_id", "lab_test_id"):
        found[account][0].add(test)
    for account, marker in LabAccountMarker.objects.values_list("account_id", "marker_id"):
        found[account][1].add(marker)
    return found


def physical_rows() -> dict[str, set[Any]]:
    """Where each row of a catalog lies: a rewritten one lies elsewhere."""
    with connection.cursor() as cursor:
        found = {}
        for table in (
            "labs_labaccounttest",
            "labs_labaccountmarker",
            "labs_labtest",
            "labs_marker",
        ):
            cursor.execute(f"SELECT ctid, xmin FROM {table}")
            found[table] = set(cursor.fetchall())
        return found


class Requests:
    """Passes everything on to the sandbox and keeps the account-scoped requests."""

    def __init__(self, point: Point, sandbox: Sandbox) -> None:
        self.scoped: list[Asked] = []
        point(forwarding(sandbox.url, self.note))

    def note(self, asked: Asked) -> None:
        if "lab_account_id" in asked.query:
            self.scoped.append(asked)


def test_catalogs_of_all_accounts_are_as_served(point: Point, sandbox: Sandbox) -> None:
    requests = Requests(point, sandbox)
    for resource in ("labs", "markers", "lab-tests", "lab-accounts"):
        assert walk(resource).state == "done"
    count = LabAccount.objects.count()
    assert count > 3 and not LabAccount.objects.exclude(catalog_read_at=None).exists()
    assert sync.run_due_lookups([CATALOG]) == count
    with sandbox.service() as service:
        for account, (tests, markers) in members().items():
            page = service.labs.lab_tests(500, lab_account_id=account)
            assert tests == {record.data.id for record in page.records} and tests
            listed = service.labs.markers(1, 100, lab_account_id=account)
            assert listed.total is not None and listed.total <= 100
            assert markers == {record.data.id for record in listed.records} and markers
    assert LabAccount.objects.filter(catalog_read_at=None).count() == 0
    assert len(requests.scoped) == 2 * count  # a page of tests and one of markers

    before, stored = physical_rows(), members()
    requests.scoped.clear()
    waiting = Lookup.objects.filter(kind=CATALOG.kind, due_at__gt=datetime.now(UTC))
    assert waiting.count() == count
    with CaptureQueriesContext(connection) as queries:
        assert read_again() == count
    assert physical_rows() == before and members() == stored
    assert len(requests.scoped) == 2 * count
    written = [q["sql"] for q in queries if q["sql"].startswith(("INSERT", "DELETE", "UPDATE"))]
    assert {sql.split('"')[1] for sql in written if "labs_" in sql} == {"labs_labaccount"}


def test_raised_revision_reads_catalogs_again(point: Point, sandbox: Sandbox) -> None:
    Requests(point, sandbox)
    walk("lab-accounts")
    count = LabAccount.objects.count()
    assert sync.run_due_lookups([CATALOG]) == count
    LabAccount.objects.update(content_hash=b"as an earlier release stored it"[:16])
    assert walk("lab-accounts").changed == count
    assert sync.run_due_lookups([CATALOG]) == count


def test_records_that_the_general_lists_lack_are_stored(point: Point, sandbox: Sandbox) -> None:
    """A catalog that is read first brings its lab tests and markers, and their markers."""
    Requests(point, sandbox)
    walk("lab-accounts")
    sync.run_due_lookups([CATALOG])
    offered = set(LabAccountTest.objects.values_list("lab_test_id", flat=True))
    assert set(LabTest.objects.values_list("pk", flat=True)) == offered
    of_markers = set(LabAccountMarker.objects.values_list("marker_id", flat=True))
    assert set(Marker.objects.values_list("pk", flat=True)) == of_markers
    marked = Lookup.objects.filter(kind="lab-test-markers").values_list("key", flat=True)
    assert set(marked) == {str(test) for test in offered}


# One made-up account


def lab_test(key: UUID, **changes: Any) -> dict[str, Any]:
    lab = {"id": 11, "slug": "lab-north", "name": "North"}
    return {"id": str(key), "name": f"Test {key.int}", "status": "active", "lab": lab, **changes}


def marker(key: int, **changes: Any) -> dict[str, Any]:
    return {"id": key, "name": f"Marker {key}", "lab_id": 11, "expected_results": [], **changes}


class Service:
    """Lists of one lab account, each of which may be replaced by another answer."""

    def __init__(self, point: Point) -> None:
        self.tests: Reply | list[dict[str, Any]] = [lab_test(TEST)]
        self.markers: Reply | list[dict[str, Any]] = [marker(1), marker(2)]
        self.general: list[dict[str, Any]] = [lab_test(TEST), lab_test(OTHER_TEST)]
        self.account = {"id": str(ACCOUNT), "lab": "lab-north", "status": "active"}
        point(self.answer)

    def answer(self, asked: Asked) -> Reply:
        scoped = "lab_account_id" in asked.query
        if asked.path == "/v3/lab_test":
            rows = self.tests if scoped else self.general
            return rows if isinstance(rows, Reply) else Reply({"data": rows})
        if asked.path == "/v3/lab_tests/markers":
            rows = self.markers
            page = {"total": len(rows), "page": 1, "size": 100} if isinstance(rows, list) else {}
            return rows if isinstance(rows, Reply) else Reply({"markers": rows, **page})
        if asked.path == "/v3/lab_test/lab_account" or "/lab_account/" in asked.path:
            return Reply({"data": [self.account]})
        return Reply({"detail": "Not found"}, 404)

    def read(self) -> AccountCatalog:
        """Read the account and its catalog."""
        walk("lab-accounts")
        read_again()
        return known()


@pytest.fixture
def service(point: Point) -> Service:
    return Service(point)


def known() -> AccountCatalog:
    return catalogs_by_account([ACCOUNT], [TEST, OTHER_TEST], [1, 2, 3])[ACCOUNT]


def waits() -> float:
    row = Lookup.objects.get(kind=CATALOG.kind)
    assert row.due_at is not None and row.lease_token is None
    return (row.due_at - datetime.now(UTC)).total_seconds()


@pytest.mark.parametrize("listed", ["tests", "markers"])
@pytest.mark.parametrize("status", [403, 404, 422, 500])
def test_refused_list_leaves_catalog_as_it_was(service: Service, listed: str, status: int) -> None:
    before = service.read()
    assert before.is_known and before.lab_tests == {TEST} and before.markers == {1, 2}
    service.tests, service.markers = [lab_test(OTHER_TEST)], [marker(3)]
    setattr(service, listed, Reply({"detail": "No"}, status))
    read_again()
    assert known() == before
    day_or_seconds = 23 * 3_600 if status in (403, 404) else 1
    assert waits() > day_or_seconds and sync.run_due_lookups([CATALOG]) == 0
    service.tests, service.markers = [lab_test(OTHER_TEST)], [marker(3)]
    read_again()
    after = known()
    assert after.lab_tests == {OTHER_TEST} and after.markers == {3}
    assert after.read_at is not None and before.read_at is not None
    assert after.read_at > before.read_at


def test_catalog_never_read_lacks_nothing(service: Service) -> None:
    service.tests = Reply({"detail": "No"}, 403)
    catalog = service.read()
    assert not catalog.is_known and catalog.read_at is None
    assert catalog.lacks_tests([TEST]) == [] and catalog.lacks_markers([1]) == []
    unknown = catalogs_by_account([UUID(int=77)], [TEST], [1])[UUID(int=77)]
    assert not unknown.is_known and unknown.lacks_tests([TEST]) == []


def test_suspended_account_is_read_like_others(service: Service) -> None:
    service.account["status"] = "suspended"
    assert service.read().lab_tests == {TEST}


def test_known_catalog_names_what_is_lacking_in_order(service: Service) -> None:
    walk("lab-tests")
    Marker.objects.create(
        pk=3, name="Marker 3", slug="", record="{}", content_hash=b"", as_of=datetime.now(UTC)
    )
    catalog = service.read()
    assert catalog.lacks_tests([OTHER_TEST, TEST]) == [OTHER_TEST]
    assert catalog.lacks_markers([3, 2, 1]) == [3]
    with CaptureQueriesContext(connection) as queries:
        assert set(catalogs_by_account([ACCOUNT, UUID(int=5)], [TEST], [1])) == {
            ACCOUNT,
            UUID(int=5),
        }
        assert catalogs_by_account([]) == {}
    assert len(queries) == 1


def test_test_newer_than_catalog_is_not_called_lacking(service: Service) -> None:
    """Made a minute ago, it is in no catalog yet: these are read at once."""
    service.general = [lab_test(TEST)]
    walk("lab-tests")
    assert service.read().lacks_tests([OTHER_TEST]) == [OTHER_TEST]
    service.general = [lab_test(TEST), lab_test(OTHER_TEST)]
    walk("lab-tests")
    catalog = known()
    assert catalog.newer_tests == {OTHER_TEST} and catalog.lacks_tests([OTHER_TEST]) == []
    service.tests = [lab_test(TEST), lab_test(OTHER_TEST)]
    assert sync.run_due_lookups([CATALOG]) == 1
    assert known().lab_tests == {TEST, OTHER_TEST} and not known().newer_tests


def test_unreadable_record_counts_as_offered(service: Service) -> None:
    service.tests = [lab_test(TEST), lab_test(OTHER_TEST, name=["not", "text"], status=5)]
    service.markers = [marker(1), marker(2, name={"not": "text"})]
    catalog = service.read()
    assert catalog.lab_tests == {TEST, OTHER_TEST} and catalog.markers == {1, 2}


def test_record_of_a_catalog_alone_is_not_missing(service: Service) -> None:
    """What an account offers and the general list lacks stays, until neither has it."""
    service.tests = [lab_test(TEST), lab_test(OTHER_TEST)]
    service.general = [lab_test(TEST)]
    service.read()
    walk("lab-tests")
    assert not LabTest.objects.exclude(missing_since=None).exists()
    service.tests = [lab_test(TEST)]
    assert sync.run_due_lookups([CATALOG]) == 1  # The sweep that did not see it asked for that.
    walk("lab-tests")
    assert LabTest.objects.exclude(missing_since=None).get().pk == OTHER_TEST
    assert Drift.objects.filter(kind=Drift.Kind.MISSING_REMOTE).count() == 1


def test_endless_list_of_an_account_is_no_catalog(service: Service) -> None:
    before = service.read()
    service.tests = Reply({"data": [lab_test(OTHER_TEST)], "next_cursor": "again"})
    read_again()
    assert known() == before and waits() > 0
