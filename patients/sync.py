"""Sync of patients: users, demographics, insurance, connections, payors, providers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max

from backoffice.core.installation import fingerprint
from backoffice.mirror.applying import apply_batch, flag_missing
from backoffice.mirror.rows import uuid_array
from backoffice.mirror.tables import ApplyOutcome, MirrorRecord, MirrorTable, RecordKey, RowValues
from backoffice.mirror.unreadable_records import key_from_raw, save_unreadable
from backoffice.service import Record, RecordPage
from backoffice.service.insurance import InsurancePayload as InsuranceRecord
from backoffice.service.insurance import PayorPayload as PayorRecord
from backoffice.service.users import Address, UserInfo, UserPayload
from backoffice.service.users import ConnectionPayload as ConnectionRecord
from backoffice.service.wearables import WearableProvider as ProviderRecord
from backoffice.sync.lookups import LookupType, schedule_lookups
from backoffice.sync.missing_records import UnsortedListComparison, flag_suspects, look_up_suspects
from backoffice.sync.models import SyncRun
from backoffice.sync.pagination import batches_by_number, single_batch
from backoffice.sync.runs import SyncedList
from patients.models import Connection, Demographics, Insurance, Patient, Payor, Provider
from patients.record_comparison import insurance_digest
from patients.search_keys import name_key, phone_key
from patients.signals import demographics_stored

USERS_PER_PAGE = 500
USER_LOOKUPS = ("demographics", "insurance-primary", "insurance-secondary", "connections")


def _patient(record: MirrorRecord) -> RowValues:
    user: UserPayload = record.data
    zone, birth = user.fallback_time_zone, user.fallback_birth_date
    return {
        "team_id": user.team_id,
        "client_user_id": user.client_user_id,
        "created_on": user.created_on,
        "fallback_time_zone": zone.id if zone else None,
        "fallback_birth_date": birth.value if birth else None,
        "ingestion_start": user.ingestion_start,
        "ingestion_end": user.ingestion_end,
    }


PATIENTS = MirrorTable(
    model=Patient,
    key=("id",),
    promote=_patient,
)


def _demographics(record: MirrorRecord) -> RowValues:
    info: UserInfo = record.data
    address = info.address or Address()
    return {
        "first_name": info.first_name,
        "last_name": info.last_name,
        "name_key": name_key(info.first_name, info.last_name),
        "email": info.email,
        "phone_number": info.phone_number,
        "phone_digits": phone_key(info.phone_number),
        "gender": info.gender,
        "dob": info.dob,
        "first_line": address.first_line,
        "second_line": address.second_line or "",
        "city": address.city,
        "state": address.state,
        "zip": address.zip or "",
        "country": address.country or "",
        "race": info.race,
        "ethnicity": info.ethnicity,
        "sexual_orientation": info.sexual_orientation,
        "gender_identity": info.gender_identity,
    }


DEMOGRAPHICS = MirrorTable(
    model=Demographics,
    key=("user_id",),
    promote=_demographics,
    revision=3,
)


def _connection(record: MirrorRecord) -> RowValues:
    connection: ConnectionRecord = record.data
    fault = connection.error_details
    return {
        "name": connection.name,
        "logo": connection.logo or "",
        "created_on": connection.created_on or record.as_of,
        "status": connection.status,
        "error_type": fault.error_type if fault else None,
        "error_message": fault.error_message if fault else None,
        "errored_at": fault.errored_at if fault else None,
    }


CONNECTIONS = MirrorTable(
    model=Connection,
    key=("user_id", "slug"),
    promote=_connection,
    vocabularies={"status": "connection.status", "error_type": "connection.error_type"},
)


def _insurance(mirror_record: MirrorRecord) -> RowValues:
    user_id, is_primary, record = mirror_record.data
    insured = record.insured
    return {
        "user_id": user_id,
        "is_primary": is_primary,
        "payor_code": record.payor_code,
        "member_id": record.member_id,
        "group_id": record.group_id,
        "relationship": record.relationship,
        "company_name": record.company.name if record.company else "",
        "insured_first_name": insured.first_name if insured else "",
        "insured_last_name": insured.last_name if insured else "",
        "insured_dob": insured.dob if insured else None,
        "superseded_at": None,
    }


INSURANCES = MirrorTable(
    model=Insurance,
    key=("id",),
    promote=_insurance,
    vocabularies={"relationship": "insurance.relationship"},
)


def _payor(record: MirrorRecord) -> RowValues:
    payor: PayorRecord = record.data
    address = payor.org_address
    return {
        "name": payor.name,
        "aliases": payor.aliases,
        "source": payor.source or None,
        "city": address.city if address else "",
        "state": address.state if address else "",
    }


PAYORS = MirrorTable(
    model=Payor,
    key=("payor_code",),
    promote=_payor,
    vocabularies={"source": "payor.source"},
)


def _provider(record: MirrorRecord) -> RowValues:
    provider: ProviderRecord = record.data
    return {
        "name": provider.name,
        "description": provider.description or "",
        "logo": provider.logo,
        "auth_type": provider.auth_type,
        "supported_resources": provider.supported_resources,
    }


PROVIDERS = MirrorTable(
    model=Provider,
    key=("slug",),
    promote=_provider,
)


def store_users(records: Sequence[Record[UserPayload]]) -> ApplyOutcome:
    """Store users as patients. Schedule the lookups of each new or changed user."""
    outcome = apply_batch(PATIENTS, [MirrorRecord.from_service(r, r.data.user_id) for r in records])
    touched = [record.key[0] for record in outcome.touched]
    for kind in USER_LOOKUPS:
        schedule_lookups(kind, touched)
    return outcome


def unknown_patients(users: Iterable[UUID]) -> list[UUID]:
    """Return the ids of `users` that are not in the mirror."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT asked.id FROM unnest(%s::uuid[]) AS asked(id)"
            " LEFT JOIN patients_patient AS patient ON patient.id = asked.id"
            " WHERE patient.id IS NULL",
            [uuid_array(set(users))],
        )
        return [user_id for (user_id,) in cursor.fetchall()]


def store_payors(records: Iterable[Record[PayorRecord]]) -> ApplyOutcome:
    return apply_batch(PAYORS, [MirrorRecord.from_service(r, r.data.payor_code) for r in records])


def _store_user_answers(answers: Mapping[str, Record[UserPayload]]) -> dict[str, timedelta | None]:
    store_users(list(answers.values()))
    return {}


def _flag_missing_users(keys: Sequence[str], asked_at: datetime) -> None:
    """Flag missing users and schedule their lookups: each answer flags its own part."""
    if flag_missing(PATIENTS, [(UUID(key),) for key in keys], asked_at):
        for kind in USER_LOOKUPS:
            schedule_lookups(kind, keys)


def store_demographics(
    answers: Mapping[str, Record[UserInfo]],
) -> dict[str, timedelta | None]:
    outcome = apply_batch(
        DEMOGRAPHICS,
        [MirrorRecord.from_service(r, UUID(key)) for key, r in answers.items()],
    )
    if changed_ids := [record.key[0] for record in outcome.touched]:
        demographics_stored.send(Demographics, patients=changed_ids)
    return {key: lookup_delay(key) for key in answers}


def _flag_missing_demographics(keys: Sequence[str], asked_at: datetime) -> None:
    flag_missing(DEMOGRAPHICS, [(UUID(key),) for key in keys], asked_at)


_REINSTATE: Final = """
UPDATE patients_insurance AS current SET superseded_at = NULL, as_of = answer.as_of
FROM unnest(%(ids)s::uuid[], %(moments)s::timestamptz[]) AS answer (id, as_of)
WHERE current.id = answer.id AND current.superseded_at IS NOT NULL
"""
_SUPERSEDE: Final = """
UPDATE patients_insurance AS other SET superseded_at = answer.as_of
FROM unnest(%(ids)s::uuid[], %(users)s::uuid[], %(moments)s::timestamptz[])
 AS answer (id, user_id, as_of)
WHERE other.user_id = answer.user_id AND other.is_primary = %(is_primary)s
 AND other.id <> answer.id AND other.superseded_at IS NULL
"""


def store_insurance(
    answers: Mapping[str, Record[InsuranceRecord]], is_primary: bool
) -> dict[str, timedelta | None]:
    """Store each new content as a new row and mark the earlier rows as superseded.

    An answer that was requested before the current one changes nothing.
    """
    answered = [
        MirrorRecord(
            (_insurance_id(user_id, is_primary, record.data),),
            record.raw,
            record.asked_at,
            (UUID(user_id), is_primary, record.data),
        )
        for user_id, record in answers.items()
    ]
    with transaction.atomic():
        newest = _newest_answer_times([record.data[0] for record in answered], is_primary)
        records = [
            record
            for record in answered
            if record.as_of >= newest.get(record.data[0], record.as_of)
        ]
        values: dict[str, Any] = {
            "ids": [record.key[0] for record in records],
            "users": [record.data[0] for record in records],
            "moments": [record.as_of for record in records],
            "is_primary": is_primary,
        }
        with connection.cursor() as cursor:
            cursor.execute(_REINSTATE, values)
            outcome = apply_batch(INSURANCES, records)
            cursor.execute(_SUPERSEDE, values)
    companies = [record.data[2].company for record in outcome.touched]
    schedule_lookups("payors", {company.name for company in companies if company} - {""})
    return {key: lookup_delay(key) for key in answers}


def _newest_answer_times(users: Sequence[UUID], is_primary: bool) -> dict[UUID, datetime]:
    """Return by user when the newest insurance in force was requested, and lock the patients.

    Without the lock, two transactions that store answers at the same time would not see each
    other's rows.
    """
    locked = Patient.objects.filter(pk__in=users).order_by("pk").select_for_update(no_key=True)
    list(locked.values_list("pk"))
    rows = Insurance.objects.filter(
        user_id__in=users, is_primary=is_primary, superseded_at__isnull=True
    )
    return dict(rows.values_list("user_id").annotate(Max("as_of")))


def _store_primary(answers: Mapping[str, Record[InsuranceRecord]]) -> dict[str, timedelta | None]:
    return store_insurance(answers, True)


def _store_secondary(
    answers: Mapping[str, Record[InsuranceRecord]],
) -> dict[str, timedelta | None]:
    return store_insurance(answers, False)


def _supersede_insurance(is_primary: bool) -> Callable[[Sequence[str], datetime], None]:
    """Return a handler that ends the insurance of users who have none at the service."""

    def supersede(keys: Sequence[str], asked_at: datetime) -> None:
        Insurance.objects.filter(
            user_id__in=[UUID(key) for key in keys],
            is_primary=is_primary,
            superseded_at__isnull=True,
            as_of__lt=asked_at,
        ).update(superseded_at=asked_at)

    return supersede


def _insurance_id(user_id: str, is_primary: bool, record: InsuranceRecord) -> UUID:
    """Return an id derived from the content, not the bytes: two answers may differ in spelling."""
    content = "\x00".join([user_id, "1" if is_primary else "2", insurance_digest(record)]).encode()
    return UUID(bytes=fingerprint(content))


def store_connections(
    answers: Mapping[str, RecordPage[ConnectionRecord]],
) -> dict[str, timedelta | None]:
    """Store the connections of users. Each answer is the whole set: others are flagged missing."""
    records = []
    for user_id, page in answers.items():
        for item in page.unreadable:
            name = f"{user_id}:{key_from_raw(item.raw)}"
            save_unreadable("connections", name, item.path, item.reason, item.raw)
        records += [MirrorRecord.from_service(r, UUID(user_id), r.data.slug) for r in page.records]
    apply_batch(CONNECTIONS, records)
    received = {record.key for record in records}
    for key in _connection_keys(answers):
        if key not in received:
            flag_missing(CONNECTIONS, [key], answers[str(key[0])].asked_at)
    return {user_id: lookup_delay(user_id) for user_id in answers}


def _flag_missing_connections(keys: Sequence[str], asked_at: datetime) -> None:
    flag_missing(CONNECTIONS, _connection_keys(keys), asked_at)


def _connection_keys(users: Iterable[str]) -> list[RecordKey]:
    rows = Connection.objects.filter(
        user_id__in=[UUID(user) for user in users], missing_since__isnull=True
    )
    return list(rows.values_list("user_id", "slug"))


def _store_payor_answers(
    answers: Mapping[str, RecordPage[PayorRecord]],
) -> dict[str, timedelta | None]:
    store_payors(record for page in answers.values() for record in page.records)
    for page in answers.values():
        for item in page.unreadable:
            save_unreadable("payors", key_from_raw(item.raw), item.path, item.reason, item.raw)
    return dict.fromkeys(answers, timedelta(days=7))


def lookup_delay(key: str) -> timedelta:
    """Return when to read a user's details again.

    The default is once a day (SYNC_PROFILE_HOURS), spread over a fifth of that time.
    """
    hours = settings.SYNC_PROFILE_HOURS
    return timedelta(hours=hours * (0.9 + (zlib.crc32(key.encode()) % 200) / 1000))


def _missing_users(run: SyncRun) -> UnsortedListComparison:
    return UnsortedListComparison(
        run,
        PATIENTS,
        keys=lambda record: [(record.data.user_id,)],
        handle_suspects=look_up_suspects("users"),
    )


USERS = SyncedList(
    resource="users",
    batches=lambda service, run: batches_by_number(
        lambda number: service.users.list((number - 1) * USERS_PER_PAGE, USERS_PER_PAGE),
        USERS_PER_PAGE,
        key=lambda user: user.user_id,
    ),
    store=store_users,
    interval=lambda: timedelta(minutes=settings.SYNC_USERS_MINUTES),
    find_missing=_missing_users,
    lookup_kind="users",
    team_of=lambda user: user.team_id,
)

PROVIDER_LIST = SyncedList(
    resource="providers",
    batches=lambda service, run: single_batch(service.wearables.providers),
    store=lambda records: apply_batch(
        PROVIDERS, [MirrorRecord.from_service(r, r.data.slug) for r in records]
    ),
    interval=lambda: timedelta(hours=settings.SYNC_CATALOGUE_HOURS),
    find_missing=lambda run: UnsortedListComparison(
        run,
        PROVIDERS,
        keys=lambda record: [(record.data.slug,)],
        handle_suspects=flag_suspects(PROVIDERS),
    ),
)

SYNCED_LISTS = (PROVIDER_LIST, USERS)

LOOKUP_TYPES = (
    LookupType(
        kind="users",
        fetch=lambda service, key: service.users.get(key),
        store=_store_user_answers,
        on_missing=_flag_missing_users,
        team_of=lambda record: record.data.team_id,
    ),
    LookupType(
        kind="demographics",
        fetch=lambda service, key: service.users.info(key),
        store=store_demographics,
        on_missing=_flag_missing_demographics,
        retry_missing_after=lookup_delay,
    ),
    LookupType(
        kind="insurance-primary",
        fetch=lambda service, key: service.insurance.latest(key, True),
        store=_store_primary,
        on_missing=_supersede_insurance(True),
        retry_missing_after=lookup_delay,
    ),
    LookupType(
        kind="insurance-secondary",
        fetch=lambda service, key: service.insurance.latest(key, False),
        store=_store_secondary,
        on_missing=_supersede_insurance(False),
        retry_missing_after=lookup_delay,
    ),
    LookupType(
        kind="connections",
        fetch=lambda service, key: service.users.connections(key),
        store=store_connections,
        on_missing=_flag_missing_connections,
        retry_missing_after=lookup_delay,
    ),
    LookupType(
        kind="payors",
        fetch=lambda service, key: service.insurance.search_payors(insurance_name=key),
        store=_store_payor_answers,
    ),
)
