"""Facts about the catalogue: labs, markers, lab tests, lab accounts, physicians."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from backoffice import mirror, sync
from backoffice.mirror import Fact
from backoffice.models import SyncRun
from backoffice.service import Record, Service, errors
from backoffice.service import labs as service_labs
from labs.models import (
    ExpectedResult,
    Lab,
    LabAccount,
    LabAccountTeam,
    LabTest,
    LabTestMarker,
    Marker,
    Physician,
)

MARKERS_A_PAGE = 100
TESTS_A_PAGE = 50


def _lab(fact: Fact) -> mirror.Values:
    lab: service_labs.Lab = fact.data
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


LABS = mirror.Table(
    model=Lab,
    key=("id",),
    promote=_lab,
)


def _marker(fact: Fact) -> mirror.Values:
    marker: service_labs.Marker = fact.data
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


def _expected_results(fact: Fact) -> Iterator[mirror.Values]:
    for position, expected in enumerate(fact.data.expected_results):
        loinc = expected.loinc
        yield {
            "marker_id": fact.key[0],
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


MARKERS = mirror.Table(
    model=Marker,
    key=("id",),
    promote=_marker,
    children=(
        mirror.Children(
            model=ExpectedResult,
            parent="marker_id",
            key=("marker_id", "position"),
            rows=_expected_results,
        ),
    ),
    vocabularies={"type": "marker.type"},
)


def _lab_test(fact: Fact) -> mirror.Values:
    test: service_labs.LabTest = fact.data
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


LAB_TESTS = mirror.Table(
    model=LabTest,
    key=("id",),
    promote=_lab_test,
    vocabularies={
        "sample_type": "lab_test.sample_type",
        "method": "order.method",
        "status": "lab_test.status",
    },
)


def _lab_account(fact: Fact) -> mirror.Values:
    account: service_labs.LabAccount = fact.data
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


LAB_ACCOUNTS = mirror.Table(
    model=LabAccount,
    key=("id",),
    promote=_lab_account,
    children=(
        mirror.Children(
            model=LabAccountTeam,
            parent="account_id",
            key=("account_id", "team_id"),
            rows=lambda fact: [
                {"account_id": fact.key[0], "team_id": team}
                for team in dict.fromkeys(fact.data.team_id_allowlist)
            ],
        ),
    ),
    vocabularies={
        "status": "lab_account.status",
        "delegated_flow": "lab_account.delegated_flow",
    },
)

PHYSICIANS = mirror.Table(
    model=Physician,
    key=("npi",),
    promote=lambda fact: {
        "first_name": fact.data.first_name,
        "last_name": fact.data.last_name,
    },
)


def _store(table: mirror.Table, key: str, records: Sequence[Record[Any]]) -> mirror.Outcome:
    return mirror.apply(table, [Fact.of(r, getattr(r.data, key)) for r in records])


def store_lab_tests(records: Sequence[Record[service_labs.LabTest]]) -> mirror.Outcome:
    """Lab tests; a new or changed one is a reason to read its markers, reflex ones included."""
    outcome = _store(LAB_TESTS, "id", records)
    sync.mark("lab-test-markers", [fact.key[0] for fact in outcome.touched])
    return outcome


def store_lab_accounts(records: Sequence[Record[service_labs.LabAccount]]) -> mirror.Outcome:
    return _store(LAB_ACCOUNTS, "id", records)


def _test_markers(service: Service, key: str) -> list[Record[service_labs.Marker]]:
    batches = sync.by_number(
        lambda number: service.labs.lab_test_markers(key, number, MARKERS_A_PAGE),
        MARKERS_A_PAGE,
        key=lambda marker: marker.id,
    )
    return [record for batch in batches for record in batch.records]


def _store_test_markers(
    answers: Mapping[str, list[Record[service_labs.Marker]]],
) -> dict[str, timedelta | None]:
    """The answer is a test's whole set: membership is replaced where it differs."""
    _store(MARKERS, "id", [record for records in answers.values() for record in records])
    held: dict[UUID, list[int]] = {UUID(key): [] for key in answers}
    for test_id, marker_id in (
        LabTestMarker.objects.filter(lab_test_id__in=list(held))
        .order_by("lab_test_id", "position")
        .values_list("lab_test_id", "marker_id")
    ):
        held[test_id].append(marker_id)
    wanted = {
        UUID(key): list(dict.fromkeys(record.data.id for record in records))
        for key, records in answers.items()
    }
    differing = [test_id for test_id, markers in wanted.items() if markers != held[test_id]]
    LabTestMarker.objects.filter(lab_test_id__in=differing).delete()
    LabTestMarker.objects.bulk_create(
        LabTestMarker(lab_test_id=test_id, marker_id=marker_id, position=position)
        for test_id in differing
        for position, marker_id in enumerate(wanted[test_id])
    )
    return dict.fromkeys(answers, timedelta(hours=settings.SYNC_CATALOGUE_HOURS))


def _all_accounts(service: Service) -> Iterator[sync.Batch[service_labs.LabAccount]]:
    """The team's accounts, and with a management key the whole organisation's."""
    (batch,) = sync.once(service.labs.lab_accounts)
    if not settings.MANAGEMENT_KEY:
        yield batch
        return
    try:
        (more,) = sync.once(service.management.lab_accounts)
    except errors.Denied:
        # The team's own accounts come all the same; that others are gone, nobody has said.
        yield batch
        raise sync.WalkError("the management key was refused") from None
    batch.records += more.records
    batch.unreadable += more.unreadable
    batch.total = len(batch)
    yield batch


def _physicians(service: Service) -> Iterator[sync.Batch[service_labs.Physician]]:
    """Listed by team, and only its records tell a team's id: without users there are none."""
    users = service.users.list(limit=1).records
    team = users[0].data.team_id if users else None
    yield from sync.once(partial(service.labs.physicians, team)) if team else [sync.Batch()]


def _in_no_test(keys: list[mirror.Key], asked_at: datetime) -> list[mirror.Key]:
    """Reflex markers are in no list but their tests'."""
    ids = [key[0] for key in keys]
    in_tests = set(
        LabTestMarker.objects.filter(marker_id__in=ids).values_list("marker_id", flat=True)
    )
    gone = [key for key in keys if key[0] not in in_tests]
    mirror.flag_missing(MARKERS, gone, asked_at)
    return gone


def _catalogue(
    resource: str,
    table: mirror.Table,
    key: str,
    walk: Any,
    store: Any = None,
    then: Any = None,
) -> sync.Listing:
    def unseen(run: SyncRun) -> sync.InWholeList:
        return sync.InWholeList(
            run,
            table,
            keys=lambda record: [(getattr(record.data, key),)],
            then=then or sync.flagging(table),
        )

    return sync.Listing(
        resource=resource,
        walk=walk,
        store=store or (lambda records: _store(table, key, records)),
        every=lambda: timedelta(hours=settings.SYNC_CATALOGUE_HOURS),
        unseen=unseen,
    )


LISTINGS = (
    _catalogue("labs", LABS, "id", lambda service, run: sync.once(service.labs.labs)),
    _catalogue(
        "markers",
        MARKERS,
        "id",
        lambda service, run: sync.by_number(
            lambda number: service.labs.markers(number, MARKERS_A_PAGE),
            MARKERS_A_PAGE,
            key=lambda marker: marker.id,
        ),
        then=_in_no_test,
    ),
    _catalogue(
        "lab-tests",
        LAB_TESTS,
        "id",
        lambda service, run: sync.by_cursor(
            lambda cursor: service.labs.lab_tests(TESTS_A_PAGE, cursor)
        ),
        store=store_lab_tests,
    ),
    _catalogue("lab-accounts", LAB_ACCOUNTS, "id", lambda service, run: _all_accounts(service)),
    _catalogue("physicians", PHYSICIANS, "npi", lambda service, run: _physicians(service)),
)

SUBJECTS = (
    sync.Subject(
        kind="lab-test-markers",
        fetch=_test_markers,
        store=_store_test_markers,
    ),
)
