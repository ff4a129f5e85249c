"""Catalogs of lab accounts, mirrored from account-scoped lists and read by the order form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from backoffice.mirror.models import Drift
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import request_run, work_on_run
from labs import sync as labs_sync
from labs.account_catalogs import AccountCatalog, catalogs_by_account
from labs.models import LabAccount, LabAccountMarker, LabAccountTest, LabTest, Marker
from tests.sandboxes import Sandbox
from tests.sync.conftest import StubService
from tests.sync.stub_server import IncomingRequest, Reply, forwarding

pytestmark = pytest.mark.django_db(transaction=True)

SYNCED_LISTS = {synced_list.resource: synced_list for synced_list in labs_sync.SYNCED_LISTS}
CATALOG = next(one for one in labs_sync.LOOKUP_TYPES if one.kind == labs_sync.ACCOUNT_CATALOG)
TEST, OTHER_TEST, ACCOUNT = UUID(int=1), UUID(int=2), UUID(int=9)


def sync_list(resource: str) -> SyncRun:
    request_run(SYNCED_LISTS[resource])
    SyncRun.objects.filter(state=SyncRun.State.DUE).update(due_at=datetime.now(UTC))
    run = work_on_run(SYNCED_LISTS[resource])
    assert run is not None
    return run


def read_all_catalogs() -> int:
    """Read all catalogs as if they were due. Return how many lookups were answered."""
    Lookup.objects.filter(kind=CATALOG.kind).update(due_at=datetime.now(UTC))
    return run_due_lookups([CATALOG])


def offered_by_account() -> dict[UUID, tuple[set[UUID], set[int]]]:
    found: dict[UUID, tuple[set[UUID], set[int]]] = {
        key: (set(), set()) for key in LabAccount.objects.values_list("pk", flat=True)
    }
    for account, test in LabAccountTest.objects.values_list("account_id", "lab_test_id"):
        found[account][0].add(test)
    for account, marker in LabAccountMarker.objects.values_list("account_id", "marker_id"):
        found[account][1].add(marker)
    return found


def physical_rows() -> dict[str, set[Any]]:
    """Return the physical location of each row of a catalog. Rewriting a row changes it."""
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


class RecordedRequests:
    """Forwards all requests to the sandbox and records the account-scoped ones."""

    def __init__(self, stub_service: StubService, sandbox: Sandbox) -> None:
        self.scoped: list[IncomingRequest] = []
        stub_service(forwarding(sandbox.url, self.note))

    def note(self, request: IncomingRequest) -> None:
        if "lab_account_id" in request.query:
            self.scoped.append(request)


def test_catalogs_of_all_accounts_are_as_served(
    stub_service: StubService, sandbox: Sandbox
) -> None:
    requests = RecordedRequests(stub_service, sandbox)
    for resource in ("labs", "markers", "lab-tests", "lab-accounts"):
        assert sync_list(resource).state == "done"
    count = LabAccount.objects.count()
    assert count > 3 and not LabAccount.objects.exclude(catalog_read_at=None).exists()
    assert run_due_lookups([CATALOG]) == count
    with sandbox.service() as service:
        for account, (tests, markers) in offered_by_account().items():
            page = service.labs.lab_tests(500, lab_account_id=account)
            assert tests == {record.data.id for record in page.records} and tests
            listed = service.labs.markers(1, 100, lab_account_id=account)
            assert listed.total is not None and listed.total <= 100
            assert markers == {record.data.id for record in listed.records} and markers
    assert LabAccount.objects.filter(catalog_read_at=None).count() == 0
    assert len(requests.scoped) == 2 * count  # a page of tests and one of markers

    before, stored = physical_rows(), offered_by_account()
    requests.scoped.clear()
    waiting = Lookup.objects.filter(kind=CATALOG.kind, due_at__gt=datetime.now(UTC))
    assert waiting.count() == count
    with CaptureQueriesContext(connection) as queries:
        assert read_all_catalogs() == count
    assert physical_rows() == before and offered_by_account() == stored
    assert len(requests.scoped) == 2 * count
    written = [q["sql"] for q in queries if q["sql"].startswith(("INSERT", "DELETE", "UPDATE"))]
    assert {sql.split('"')[1] for sql in written if "labs_" in sql} == {"labs_labaccount"}


def test_raised_revision_reads_catalogs_again(stub_service: StubService, sandbox: Sandbox) -> None:
    RecordedRequests(stub_service, sandbox)
    sync_list("lab-accounts")
    count = LabAccount.objects.count()
    assert run_due_lookups([CATALOG]) == count
    LabAccount.objects.update(content_hash=b"as an earlier release stored it"[:16])
    assert sync_list("lab-accounts").changed == count
    assert run_due_lookups([CATALOG]) == count


def test_records_that_the_general_lists_lack_are_stored(
    stub_service: StubService, sandbox: Sandbox
) -> None:
    """A catalog that is read first brings its lab tests and markers, and their markers."""
    RecordedRequests(stub_service, sandbox)
    sync_list("lab-accounts")
    run_due_lookups([CATALOG])
    offered = set(LabAccountTest.objects.values_list("lab_test_id", flat=True))
    assert set(LabTest.objects.values_list("pk", flat=True)) == offered
    of_markers = set(LabAccountMarker.objects.values_list("marker_id", flat=True))
    assert set(Marker.objects.values_list("pk", flat=True)) == of_markers
    marked = Lookup.objects.filter(kind="lab-test-markers").values_list("key", flat=True)
    assert set(marked) == {str(test) for test in offered}


# One invented account


def lab_test(key: UUID, **changes: Any) -> dict[str, Any]:
    lab = {"id": 11, "slug": "lab-north", "name": "North"}
    return {"id": str(key), "name": f"Test {key.int}", "status": "active", "lab": lab, **changes}


def marker(key: int, **changes: Any) -> dict[str, Any]:
    return {"id": key, "name": f"Marker {key}", "lab_id": 11, "expected_results": [], **changes}


class StubAccountService:
    """The lists of one lab account. Tests may replace each of them by another answer."""

    def __init__(self, stub_service: StubService) -> None:
        self.tests: Reply | list[dict[str, Any]] = [lab_test(TEST)]
        self.markers: Reply | list[dict[str, Any]] = [marker(1), marker(2)]
        self.general: list[dict[str, Any]] = [lab_test(TEST), lab_test(OTHER_TEST)]
        self.account = {"id": str(ACCOUNT), "lab": "lab-north", "status": "active"}
        stub_service(self.answer)

    def answer(self, request: IncomingRequest) -> Reply:
        scoped = "lab_account_id" in request.query
        if request.path == "/v3/lab_test":
            rows = self.tests if scoped else self.general
            return rows if isinstance(rows, Reply) else Reply({"data": rows})
        if request.path == "/v3/lab_tests/markers":
            rows = self.markers
            page = {"total": len(rows), "page": 1, "size": 100} if isinstance(rows, list) else {}
            return rows if isinstance(rows, Reply) else Reply({"markers": rows, **page})
        if request.path == "/v3/lab_test/lab_account" or "/lab_account/" in request.path:
            return Reply({"data": [self.account]})
        return Reply({"detail": "Not found"}, 404)

    def read(self) -> AccountCatalog:
        """Read the account and its catalog."""
        sync_list("lab-accounts")
        read_all_catalogs()
        return stored_catalog()


@pytest.fixture
def service(stub_service: StubService) -> StubAccountService:
    return StubAccountService(stub_service)


def stored_catalog() -> AccountCatalog:
    return catalogs_by_account([ACCOUNT], [TEST, OTHER_TEST], [1, 2, 3])[ACCOUNT]


def seconds_until_due() -> float:
    row = Lookup.objects.get(kind=CATALOG.kind)
    assert row.due_at is not None and row.lease_token is None
    return (row.due_at - datetime.now(UTC)).total_seconds()


@pytest.mark.parametrize("listed", ["tests", "markers"])
@pytest.mark.parametrize("status", [403, 404, 422, 500])
def test_refused_list_leaves_catalog_unchanged(
    service: StubAccountService, listed: str, status: int
) -> None:
    before = service.read()
    assert before.is_known and before.lab_tests == {TEST} and before.markers == {1, 2}
    service.tests, service.markers = [lab_test(OTHER_TEST)], [marker(3)]
    setattr(service, listed, Reply({"detail": "No"}, status))
    read_all_catalogs()
    assert stored_catalog() == before
    day_or_seconds = 23 * 3_600 if status in (403, 404) else 1
    assert seconds_until_due() > day_or_seconds and run_due_lookups([CATALOG]) == 0
    service.tests, service.markers = [lab_test(OTHER_TEST)], [marker(3)]
    read_all_catalogs()
    after = stored_catalog()
    assert after.lab_tests == {OTHER_TEST} and after.markers == {3}
    assert after.read_at is not None and before.read_at is not None
    assert after.read_at > before.read_at


def test_catalog_never_read_lacks_nothing(service: StubAccountService) -> None:
    service.tests = Reply({"detail": "No"}, 403)
    catalog = service.read()
    assert not catalog.is_known and catalog.read_at is None
    assert catalog.lacks_tests([TEST]) == [] and catalog.lacks_markers([1]) == []
    unknown = catalogs_by_account([UUID(int=77)], [TEST], [1])[UUID(int=77)]
    assert not unknown.is_known and unknown.lacks_tests([TEST]) == []


def test_suspended_account_is_read_like_others(service: StubAccountService) -> None:
    service.account["status"] = "suspended"
    assert service.read().lab_tests == {TEST}


def test_known_catalog_names_what_is_lacking_in_order(service: StubAccountService) -> None:
    sync_list("lab-tests")
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


def test_test_newer_than_catalog_is_not_reported_as_lacking(service: StubAccountService) -> None:
    """A test made a minute ago is in no catalog yet. Catalogs are read again at once."""
    service.general = [lab_test(TEST)]
    sync_list("lab-tests")
    assert service.read().lacks_tests([OTHER_TEST]) == [OTHER_TEST]
    service.general = [lab_test(TEST), lab_test(OTHER_TEST)]
    sync_list("lab-tests")
    catalog = stored_catalog()
    assert catalog.newer_tests == {OTHER_TEST} and catalog.lacks_tests([OTHER_TEST]) == []
    service.tests = [lab_test(TEST), lab_test(OTHER_TEST)]
    assert run_due_lookups([CATALOG]) == 1
    assert stored_catalog().lab_tests == {TEST, OTHER_TEST} and not stored_catalog().newer_tests


def test_unreadable_record_counts_as_offered(service: StubAccountService) -> None:
    service.tests = [lab_test(TEST), lab_test(OTHER_TEST, name=["not", "text"], status=5)]
    service.markers = [marker(1), marker(2, name={"not": "text"})]
    catalog = service.read()
    assert catalog.lab_tests == {TEST, OTHER_TEST} and catalog.markers == {1, 2}


def test_record_in_account_catalog_only_is_not_missing(service: StubAccountService) -> None:
    """A test that only an account offers stays until no list has it."""
    service.tests = [lab_test(TEST), lab_test(OTHER_TEST)]
    service.general = [lab_test(TEST)]
    service.read()
    sync_list("lab-tests")
    assert not LabTest.objects.exclude(missing_since=None).exists()
    service.tests = [lab_test(TEST)]
    # The sweep that did not see it scheduled the lookup.
    assert run_due_lookups([CATALOG]) == 1
    sync_list("lab-tests")
    assert LabTest.objects.exclude(missing_since=None).get().pk == OTHER_TEST
    assert Drift.objects.filter(kind=Drift.Kind.MISSING_REMOTE).count() == 1


def test_endless_list_of_an_account_leaves_catalog_unchanged(service: StubAccountService) -> None:
    before = service.read()
    service.tests = Reply({"data": [lab_test(OTHER_TEST)], "next_cursor": "again"})
    read_all_catalogs()
    assert stored_catalog() == before and seconds_until_due() > 0
