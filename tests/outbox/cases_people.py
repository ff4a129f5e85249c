"""Cases of commands about patients."""

from __future__ import annotations

import itertools
import uuid
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.utils import timezone

from backoffice.core.service_client import service
from backoffice.service.insurance import NewPayor
from backoffice.service.users import NewAddress, NewUser, NewUserInfo
from patients.commands import (
    AddInsurance,
    CreatePayor,
    CreateUser,
    Deregister,
    InsuranceRequest,
    MakeConnectLink,
    SetUserInfo,
)
from patients.commands.patients import insured_person
from patients.models import ConnectLink
from patients.sync import store_connections, store_demographics, store_users
from tests.outbox.records import CommandCase, SandboxRecords
from tests.sandbox.ordering import TEAM

_NUMBERS = itertools.count(1)
ADDRESS = NewAddress(
    first_line="12 Sample Street", city="Phoenix", state="AZ", zip="85004", country="US"
)


def _number_as_letters(number: int) -> str:
    """Write a number in letters, for unique names: names have no digits."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def _person_details(**changes: Any) -> NewUserInfo:
    details: dict[str, Any] = {
        "first_name": "Nora",
        "last_name": f"Notreal {_number_as_letters(next(_NUMBERS))}",
        "email": "nora@example.invalid",
        "phone_number": "+15550100001",
        "gender": "female",
        "dob": date(1980, 5, 6),
        "address": ADDRESS,
    }
    return NewUserInfo(**{**details, **changes})


def new_user(info: NewUserInfo | None = None) -> UUID:
    """Create and mirror a patient."""
    record = service().users.create(NewUser(client_user_id=f"case-{uuid.uuid4().hex[:12]}"))
    user_id = record.data.user_id
    store_users([record])
    if info is not None:
        store_demographics({str(user_id): service().users.update_info(user_id, info)})
    return user_id


def _insurance_card(**changes: Any) -> InsuranceRequest:
    return InsuranceRequest(
        payor_code="MUPLAN1",
        payor_name="Made-up Mutual",
        member_id=f"M{next(_NUMBERS)}",
        relationship="Self",
        **changes,
    )


def _create_registration(records: SandboxRecords) -> CreateUser:
    return CreateUser(client_user_id=f"case-{uuid.uuid4().hex[:12]}", info=_person_details())


def _count_registrations(records: SandboxRecords, command: CreateUser, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_user WHERE client_user_id = %s", command.client_user_id
    )


def _create_details_change(records: SandboxRecords) -> SetUserInfo:
    return SetUserInfo(user_id=new_user(), info=msgspec.to_builtins(_person_details()), seen="")


def _count_details_changes(records: SandboxRecords, command: SetUserInfo, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_userinfo WHERE user_id = %s AND last_name = %s",
        command.user_id,
        command.info["last_name"],
    )


def _create_insurance(records: SandboxRecords) -> AddInsurance:
    info = _person_details()
    return AddInsurance(
        user_id=new_user(info), insuring=_insurance_card(), insured=insured_person(info)
    )


def _count_insurances(records: SandboxRecords, command: AddInsurance, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_insurance WHERE user_id = %s", command.user_id
    )


def _create_payor(records: SandboxRecords) -> CreatePayor:
    info = _person_details()
    payor = NewPayor(name=f"Made-up Payor {uuid.uuid4().hex[:8]}", address=ADDRESS)
    return CreatePayor(
        payor=payor,
        user_id=new_user(info),
        insuring=_insurance_card(new_payor=payor),
        insured=insured_person(info),
    )


def _count_payors(records: SandboxRecords, command: CreatePayor, _: UUID) -> int:
    return records.count("SELECT count(*) FROM sandbox_payor WHERE name = %s", command.payor.name)


def _create_disconnection(records: SandboxRecords) -> Deregister:
    """Connect a source that the app on the patient's device does not manage."""
    records.sandbox.control("connections", {"connect": 3, "seed": next(_NUMBERS)})
    user_id, slug = records.sandbox.query(
        "SELECT c.user_id, c.provider_id FROM sandbox_connection c JOIN sandbox_provider p"
        " ON p.slug = c.provider_id JOIN sandbox_user u ON u.id = c.user_id"
        " WHERE p.auth_type <> 'sdk' AND u.deleted_at IS NULL AND u.team_id = %s"
        " ORDER BY c.id DESC LIMIT 1",
        [TEAM],
    )[0]
    store_connections({str(user_id): service().users.connections(user_id)})
    return Deregister(user_id=user_id, slug=slug, name=slug)


def _count_disconnections(records: SandboxRecords, command: Deregister, _: UUID) -> int:
    return -records.count(
        "SELECT count(*) FROM sandbox_connection WHERE user_id = %s AND provider_id = %s",
        command.user_id,
        command.slug,
    )


def _create_link(records: SandboxRecords) -> MakeConnectLink:
    """`asked_at` lies 2 hours ahead, so that the request does not expire during the test."""
    return MakeConnectLink(user_id=new_user(), asked_at=timezone.now() + timedelta(hours=2))


def _count_shown_links(records: SandboxRecords, command: MakeConnectLink, row_id: UUID) -> int:
    """Count links that can be shown. A link with a lost answer is never shown and expires."""
    return ConnectLink.objects.filter(pk=row_id).count()


CASES = (
    CommandCase(CreateUser, _create_registration, _count_registrations, "/v2/user$"),
    CommandCase(SetUserInfo, _create_details_change, _count_details_changes, "/info$"),
    CommandCase(AddInsurance, _create_insurance, _count_insurances, "/insurance$"),
    CommandCase(CreatePayor, _create_payor, _count_payors, "/v3/payor$"),
    CommandCase(MakeConnectLink, _create_link, _count_shown_links, "/v2/link/token$"),
    CommandCase(
        Deregister, _create_disconnection, _count_disconnections, "/v2/user/[0-9a-f-]+/[^/]+$"
    ),
)
