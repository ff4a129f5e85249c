"""Sync of the catalog: labs, markers, lab tests, lab accounts, physicians."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from backoffice.mirror.applying import apply_batch, flag_missing
from backoffice.mirror.tables import (
    ApplyOutcome,
    ChildTable,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
)
from backoffice.mirror.unreadable_records import key_from_raw
from backoffice.service import Record, Service, errors
from backoffice.service import labs as service_labs
from backoffice.sync.lookups import LookupType, schedule_lookups
from backoffice.sync.missing_records import (
    SuspectHandler,
    UnsortedListComparison,
    flag_suspects,
)
from backoffice.sync.models import SyncRun
from backoffice.sync.pagination import (
    Batch,
    PaginationError,
    batches_by_cursor,
    batches_by_number,
    single_batch,
)
from backoffice.sync.runs import SyncedList
from labs.models import (
    ExpectedResult,
    Lab,
    LabAccount,
    LabAccountMarker,
    LabAccountTeam,
    LabAccountTest,
    LabTest,
    LabTestMarker,
    Marker,
    Physician,
)

T = TypeVar("T")
Offer = TypeVar("Offer", LabAccountTest, LabAccountMarker)

MARKERS_PER_PAGE = 100
TESTS_PER_PAGE = 50
ACCOUNT_CATALOG: Final = "lab-account-catalog"
"""Kind of the lookups that read the catalog of a lab account."""
ACCOUNTS_AT_ONCE: Final = 4
"""Number of catalogs in memory at once. One catalog may have tens of thousands of markers."""


def _lab(record: MirrorRecord) -> RowValues:
    lab: service_labs.LabPayload = record.data
    return {
        "slug": lab.slug,
        "name": lab.name,
        "first_line_address": lab.first_line_address,
        "city": lab.city,
        "zipcode": lab.zipcode,
        "collection_methods": lab.collection_methods,
        "sample_types": lab.sample_types,
        "logo_url": lab.logo_url,
    }


LABS = MirrorTable(model=Lab, key=("id",), promote=_lab)


def _marker(record: MirrorRecord) -> RowValues:
    marker: service_labs.MarkerPayload = record.data
    return {
        "lab_id": marker.lab_id,
        "name": marker.name,
        "slug": marker.slug,
        "description": marker.description,
        "provider_id": marker.provider_id,
        "type": marker.type,
        "unit": marker.unit,
        "price": marker.price,
        "a_la_carte_enabled": marker.a_la_carte_enabled,
        "is_orderable": marker.is_orderable,
        "has_questions": bool(marker.aoe and marker.aoe.questions),
        "common_tat_days": marker.common_tat_days,
        "worst_case_tat_days": marker.worst_case_tat_days,
    }


def _expected_results(record: MirrorRecord) -> Iterator[RowValues]:
    for position, expected in enumerate(record.data.expected_results):
        loinc = expected.loinc
        yield {
            "marker_id": record.key[0],
            "position": position,
            "result_id": expected.id,
            "name": expected.name,
            "slug": expected.slug,
            "lab_id": expected.lab_id,
            "provider_id": expected.provider_id,
            "required": expected.required,
            "loinc_code": loinc.code if loinc else None,
            "loinc_name": loinc.name if loinc else None,
            "loinc_slug": loinc.slug if loinc else None,
            "unit": loinc.unit if loinc else None,
        }


MARKERS = MirrorTable(
    model=Marker,
    key=("id",),
    promote=_marker,
    children=(
        ChildTable(
            model=ExpectedResult,
            parent="marker_id",
            key=("marker_id", "position"),
            rows=_expected_results,
        ),
    ),
    vocabularies={"type": "marker.type"},
)


def _lab_test(record: MirrorRecord) -> RowValues:
    test: service_labs.LabTestPayload = record.data
    return {
        "lab_id": test.lab.id if test.lab else None,
        "slug": test.slug,
        "name": test.name,
        "description": test.description,
        "sample_type": test.sample_type,
        "method": test.method,
        "price": test.price,
        "is_active": test.is_active,
        "status": test.status,
        "fasting": test.fasting,
        "auto_generated": test.auto_generated,
        "has_collection_instructions": test.has_collection_instructions,
        "common_tat_days": test.common_tat_days,
        "worst_case_tat_days": test.worst_case_tat_days,
    }


LAB_TESTS = MirrorTable(
    model=LabTest,
    key=("id",),
    promote=_lab_test,
    vocabularies={
        "sample_type": "lab_test.sample_type",
        "method": "order.method",
        "status": "lab_test.status",
    },
)


def _lab_account(record: MirrorRecord) -> RowValues:
    account: service_labs.LabAccountPayload = record.data
    return {
        "lab": account.lab,
        "org_id": account.org_id,
        "status": account.status,
        "delegated_flow": account.delegated_flow,
        "provider_account_id": account.provider_account_id,
        "account_name": account.account_name,
        "default_clinical_notes": account.default_clinical_notes,
        "business_units": account.business_units,
    }


LAB_ACCOUNTS = MirrorTable(
    model=LabAccount,
    key=("id",),
    promote=_lab_account,
    children=(
        ChildTable(
            model=LabAccountTeam,
            parent="account_id",
            key=("account_id", "team_id"),
            rows=lambda record: [
                {"account_id": record.key[0], "team_id": team}
                for team in dict.fromkeys(record.data.team_id_allowlist)
            ],
        ),
    ),
    vocabularies={
        "status": "lab_account.status",
        "delegated_flow": "lab_account.delegated_flow",
    },
    # 2: also read the catalogs of accounts that were stored before.
    revision=2,
)

PHYSICIANS = MirrorTable(
    model=Physician,
    key=("npi",),
    promote=lambda record: {
        "first_name": record.data.first_name,
        "last_name": record.data.last_name,
    },
)


def _store(table: MirrorTable, key: str, records: Sequence[Record[Any]]) -> ApplyOutcome:
    return apply_batch(table, [MirrorRecord.from_service(r, getattr(r.data, key)) for r in records])


def store_lab_tests(records: Sequence[Record[service_labs.LabTestPayload]]) -> ApplyOutcome:
    """Store lab tests.

    For each new or changed test, schedule lookups of its markers, reflex markers included, and of
    the catalogs of the accounts at its lab.
    """
    outcome = _store(LAB_TESTS, "id", records)
    schedule_lookups("lab-test-markers", [record.key[0] for record in outcome.touched])
    labs = {record.data.lab.slug for record in outcome.touched if record.data.lab}
    if labs:
        accounts = LabAccount.objects.filter(lab__in=labs, missing_since=None)
        schedule_lookups(ACCOUNT_CATALOG, accounts.values_list("pk", flat=True))
    return outcome


def store_lab_accounts(records: Sequence[Record[service_labs.LabAccountPayload]]) -> ApplyOutcome:
    """Store lab accounts. Schedule a lookup of the catalog of each new or changed one."""
    outcome = _store(LAB_ACCOUNTS, "id", records)
    schedule_lookups(ACCOUNT_CATALOG, [record.key[0] for record in outcome.touched])
    return outcome


def _test_markers(service: Service, key: str) -> list[Record[service_labs.MarkerPayload]]:
    batches = batches_by_number(
        lambda number: service.labs.lab_test_markers(key, number, MARKERS_PER_PAGE),
        MARKERS_PER_PAGE,
        key=lambda marker: marker.id,
    )
    return [record for batch in batches for record in batch.records]


def _store_test_markers(
    answers: Mapping[str, list[Record[service_labs.MarkerPayload]]],
) -> dict[str, timedelta | None]:
    """Store the markers of lab tests. Each answer is the whole list: others are removed."""
    _store(MARKERS, "id", [record for records in answers.values() for record in records])
    stored: dict[UUID, list[int]] = {UUID(key): [] for key in answers}
    for test_id, marker_id in (
        LabTestMarker.objects.filter(lab_test_id__in=list(stored))
        .order_by("lab_test_id", "position")
        .values_list("lab_test_id", "marker_id")
    ):
        stored[test_id].append(marker_id)
    received = {
        UUID(key): list(dict.fromkeys(record.data.id for record in records))
        for key, records in answers.items()
    }
    differing = [test_id for test_id, markers in received.items() if markers != stored[test_id]]
    LabTestMarker.objects.filter(lab_test_id__in=differing).delete()
    LabTestMarker.objects.bulk_create(
        LabTestMarker(lab_test_id=test_id, marker_id=marker_id, position=position)
        for test_id in differing
        for position, marker_id in enumerate(received[test_id])
    )
    return dict.fromkeys(answers, timedelta(hours=settings.SYNC_CATALOGUE_HOURS))


@dataclass(frozen=True, slots=True)
class AccountLists:
    """The lists of lab tests and markers of an account, and when they were requested.

    A record is None if only its id could be read. The account still offers it.
    """

    read_at: datetime
    lab_tests: Mapping[UUID, Record[service_labs.LabTestPayload] | None]
    markers: Mapping[int, Record[service_labs.MarkerPayload] | None]


def _account_lists(service: Service, key: str) -> AccountLists:
    read_at = datetime.now(UTC)
    tests = batches_by_cursor(
        lambda cursor: service.labs.lab_tests(TESTS_PER_PAGE, cursor, lab_account_id=key)
    )
    markers = batches_by_number(
        lambda number: service.labs.markers(number, MARKERS_PER_PAGE, lab_account_id=key),
        MARKERS_PER_PAGE,
        key=lambda marker: marker.id,
    )
    try:
        return AccountLists(read_at, _by_id(tests, UUID), _by_id(markers, int))
    except errors.Denied as error:
        if error.status == 401:
            raise
        # The service refuses to show this account's lists. It would not help to repeat the request
        # soon.
        raise errors.Missing(status=error.status, route=error.route) from None


def _by_id(
    batches: Iterator[Batch[Any]], read_id: Callable[[str], T]
) -> dict[T, Record[Any] | None]:
    records: dict[T, Record[Any] | None] = {}
    for batch in batches:
        for item in batch.unreadable:
            with suppress(ValueError):
                records[read_id(key_from_raw(item.raw))] = None
        records.update((record.data.id, record) for record in batch.records)
    return records


def _store_account_lists(answers: Mapping[str, AccountLists]) -> dict[str, timedelta | None]:
    """Store the catalogs of accounts. Each answer is the complete catalog."""
    by_account = {UUID(key): lists for key, lists in answers.items()}
    _store_unlisted(LAB_TESTS, [lists.lab_tests for lists in by_account.values()])
    _store_unlisted(MARKERS, [lists.markers for lists in by_account.values()])
    # Lock in key order, as the mirror writes accounts. Otherwise the two could deadlock.
    accounts = LabAccount.objects.select_for_update(no_key=True).filter(pk__in=by_account)
    for account_id in accounts.order_by("pk").values_list("pk", flat=True):
        lists = by_account[account_id]
        _update_members(LabAccountTest, "lab_test_id", account_id, lists.lab_tests.keys())
        _update_members(LabAccountMarker, "marker_id", account_id, lists.markers.keys())
        LabAccount.objects.filter(pk=account_id).update(catalog_read_at=lists.read_at)
    return dict.fromkeys(answers, timedelta(hours=settings.SYNC_CATALOGUE_HOURS))


def _store_unlisted(table: MirrorTable, offers: Sequence[Mapping[Any, Record[Any] | None]]) -> None:
    """Store the records that are missing in the general lists.

    Records of the general lists are not written. An account may have a different version of a
    record, and the two versions would overwrite each other.
    """
    records = {key: record for offer in offers for key, record in offer.items() if record}
    rows = table.model._default_manager.filter(missing_since=None, pk__in=records)
    listed = set(rows.values_list("pk", flat=True))
    outcome = _store(table, "id", [records[key] for key in records.keys() - listed])
    if table is LAB_TESTS:
        schedule_lookups("lab-test-markers", [record.key[0] for record in outcome.touched])


def _update_members(
    model: type[Offer],
    column: str,
    account_id: UUID,
    offered: Collection[UUID] | Collection[int],
) -> None:
    """Make the rows of the account those of the offered tests or markers."""
    rows = model._default_manager.filter(account_id=account_id)
    stored = set(rows.values_list(column, flat=True))
    if removed := stored - set(offered):
        rows.filter(**{f"{column}__in": removed}).delete()
    model._default_manager.bulk_create(
        [model(**{"account_id": account_id, column: key}) for key in set(offered) - stored],
        ignore_conflicts=True,
    )


def _all_accounts(service: Service) -> Iterator[Batch[service_labs.LabAccountPayload]]:
    """Yield the accounts of the team; with a management key, those of the whole organization."""
    (batch,) = single_batch(service.labs.lab_accounts)
    if not settings.MANAGEMENT_KEY:
        yield batch
        return
    try:
        (more,) = single_batch(service.management.lab_accounts)
    except errors.Denied:
        # Store the team's own accounts, but do not flag the others as missing.
        yield batch
        raise PaginationError("the management key was refused") from None
    batch.records += more.records
    batch.unreadable += more.unreadable
    batch.total = len(batch)
    yield batch


def _physicians(service: Service) -> Iterator[Batch[service_labs.PhysicianPayload]]:
    """Yield the physicians of the team.

    The list needs the team id, and only user records have it: without users there are none.
    """
    users = service.users.list(limit=1).records
    team = users[0].data.team_id if users else None
    yield from single_batch(partial(service.labs.physicians, team)) if team else [Batch()]


def _flag_missing_markers(keys: list[RecordKey], asked_at: datetime) -> list[RecordKey]:
    """Flag missing markers. Reflex markers are listed only by their tests, others by accounts."""
    ids = [key[0] for key in keys]
    in_tests = LabTestMarker.objects.filter(marker_id__in=ids).values_list("marker_id", flat=True)
    offered = _offered(LabAccountMarker.objects.filter(marker_id__in=ids), "marker_id")
    elsewhere = {*in_tests, *offered}
    missing_keys = [key for key in keys if key[0] not in elsewhere]
    flag_missing(MARKERS, missing_keys, asked_at)
    return missing_keys


def _flag_missing_tests(keys: list[RecordKey], asked_at: datetime) -> list[RecordKey]:
    """Flag missing lab tests, except those that an account offers."""
    ids = [key[0] for key in keys]
    offered = _offered(LabAccountTest.objects.filter(lab_test_id__in=ids), "lab_test_id")
    missing_keys = [key for key in keys if key[0] not in offered]
    flag_missing(LAB_TESTS, missing_keys, asked_at)
    return missing_keys


def _offered(rows: QuerySet[LabAccountTest] | QuerySet[LabAccountMarker], key: str) -> set[object]:
    """Return the keys that are in catalogs of accounts, and schedule lookups of these catalogs.

    If an account no longer offers them, the next comparison flags them as missing.
    """
    offers = list(rows.values_list("account_id", key))
    schedule_lookups(ACCOUNT_CATALOG, {account for account, _ in offers})
    return {offered for _, offered in offers}


def _catalog_list(
    resource: str,
    table: MirrorTable,
    key: str,
    batches: Callable[[Service, SyncRun], Iterator[Batch[Any]]],
    store: Callable[[Sequence[Record[Any]]], ApplyOutcome] | None = None,
    handle_suspects: SuspectHandler | None = None,
) -> SyncedList:
    """Return a list of the catalog. `key`: the attribute of a record that has its key."""
    return SyncedList(
        resource=resource,
        batches=batches,
        store=store or (lambda records: _store(table, key, records)),
        interval=lambda: timedelta(hours=settings.SYNC_CATALOGUE_HOURS),
        find_missing=lambda run: UnsortedListComparison(
            run,
            table,
            keys=lambda record: [(getattr(record.data, key),)],
            handle_suspects=handle_suspects or flag_suspects(table),
        ),
    )


SYNCED_LISTS = (
    _catalog_list("labs", LABS, "id", lambda service, run: single_batch(service.labs.labs)),
    _catalog_list(
        "markers",
        MARKERS,
        "id",
        lambda service, run: batches_by_number(
            lambda number: service.labs.markers(number, MARKERS_PER_PAGE),
            MARKERS_PER_PAGE,
            key=lambda marker: marker.id,
        ),
        handle_suspects=_flag_missing_markers,
    ),
    _catalog_list(
        "lab-tests",
        LAB_TESTS,
        "id",
        lambda service, run: batches_by_cursor(
            lambda cursor: service.labs.lab_tests(TESTS_PER_PAGE, cursor)
        ),
        store=store_lab_tests,
        handle_suspects=_flag_missing_tests,
    ),
    _catalog_list(
        "lab-accounts",
        LAB_ACCOUNTS,
        "id",
        lambda service, run: _all_accounts(service),
        store=store_lab_accounts,
    ),
    _catalog_list("physicians", PHYSICIANS, "npi", lambda service, run: _physicians(service)),
)

LOOKUP_TYPES = (
    LookupType(
        kind="lab-test-markers",
        fetch=_test_markers,
        store=_store_test_markers,
    ),
    LookupType(
        kind=ACCOUNT_CATALOG,
        fetch=_account_lists,
        store=_store_account_lists,
        # Keep the catalog: an account that the service does not show now may be shown again.
        retry_missing_after=lambda key: timedelta(hours=settings.SYNC_CATALOGUE_HOURS),
        batch_size=ACCOUNTS_AT_ONCE,
    ),
)
