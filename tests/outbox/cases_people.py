"""Cases of what is asked about patients."""

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
from tests.outbox.scene import Case, Scene
from tests.sandbox.ordering import TEAM

_NUMBERS = itertools.count(1)
ADDRESS = NewAddress(
    first_line="12 Sample Street", city="Phoenix", state="AZ", zip="85004", country="US"
)


def _letters(number: int) -> str:
    """A name of its own for each: names have no digits."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def _info(**more: Any) -> NewUserInfo:
    given: dict[str, Any] = {
        "first_name": "Nora",
        "last_name": f"Notreal {_letters(next(_NUMBERS))}",
        "email": "nora@example.invalid",
        "phone_number": "+15550100001",
        "gender": "female",
        "dob": date(1980, 5, 6),
        "address": ADDRESS,
    }
    return NewUserInfo(**{**given, **more})


def new_user(info: NewUserInfo | None = None) -> UUID:
    """A new patient, at the service and here."""
    made = service().users.create(NewUser(client_user_id=f"case-{uuid.uuid4().hex[:12]}"))
    user_id = made.data.user_id
    store_users([made])
    if info is not None:
        store_demographics({str(user_id): service().users.update_info(user_id, info)})
    return user_id


def _card(**more: Any) -> InsuranceRequest:
    return InsuranceRequest(
        payor_code="MUPLAN1",
        payor_name="Made-up Mutual",
        member_id=f"M{next(_NUMBERS)}",
        relationship="Self",
        **more,
    )


def _create(scene: Scene) -> CreateUser:
    return CreateUser(client_user_id=f"case-{uuid.uuid4().hex[:12]}", info=_info())


def _created(scene: Scene, command: CreateUser, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_user WHERE client_user_id = %s", command.client_user_id
    )


def _details(scene: Scene) -> SetUserInfo:
    return SetUserInfo(user_id=new_user(), info=msgspec.to_builtins(_info()), seen="")


def _detailed(scene: Scene, command: SetUserInfo, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_userinfo WHERE user_id = %s AND last_name = %s",
        command.user_id,
        command.info["last_name"],
    )


def _insure(scene: Scene) -> AddInsurance:
    info = _info()
    return AddInsurance(user_id=new_user(info), insuring=_card(), insured=insured_person(info))


def _insured(scene: Scene, command: AddInsurance, _: UUID) -> int:
    return scene.count("SELECT count(*) FROM sandbox_insurance WHERE user_id = %s", command.user_id)


def _payor(scene: Scene) -> CreatePayor:
    info = _info()
    payor = NewPayor(name=f"Made-up Payor {uuid.uuid4().hex[:8]}", address=ADDRESS)
    return CreatePayor(
        payor=payor,
        user_id=new_user(info),
        insuring=_card(new_payor=payor),
        insured=insured_person(info),
    )


def _payors(scene: Scene, command: CreatePayor, _: UUID) -> int:
    return scene.count("SELECT count(*) FROM sandbox_payor WHERE name = %s", command.payor.name)


def _disconnect(scene: Scene) -> Deregister:
    """A source of a patient that is not kept by the app on their device."""
    scene.sandbox.control("connections", {"connect": 3, "seed": next(_NUMBERS)})
    user_id, slug = scene.sandbox.query(
        "SELECT c.user_id, c.provider_id FROM sandbox_connection c JOIN sandbox_provider p"
        " ON p.slug = c.provider_id JOIN sandbox_user u ON u.id = c.user_id"
        " WHERE p.auth_type <> 'sdk' AND u.deleted_at IS NULL AND u.team_id = %s"
        " ORDER BY c.id DESC LIMIT 1",
        [TEAM],
    )[0]
    store_connections({str(user_id): service().users.connections(user_id)})
    return Deregister(user_id=user_id, slug=slug, name=slug)


def _disconnected(scene: Scene, command: Deregister, _: UUID) -> int:
    return -scene.count(
        "SELECT count(*) FROM sandbox_connection WHERE user_id = %s AND provider_id = %s",
        command.user_id,
        command.slug,
    )


def _link(scene: Scene) -> MakeConnectLink:
    """Somebody waits for it longer than people do."""
    return MakeConnectLink(user_id=new_user(), asked_at=timezone.now() + timedelta(hours=2))


def _linked(scene: Scene, command: MakeConnectLink, row_id: UUID) -> int:
    """Links that can be shown: one whose answer was lost is known to nobody, and runs out."""
    return ConnectLink.objects.filter(pk=row_id).count()


CASES = (
    Case(CreateUser, _create, _created, "/v2/user$"),
    Case(SetUserInfo, _details, _detailed, "/info$"),
    Case(AddInsurance, _insure, _insured, "/insurance$"),
    Case(CreatePayor, _payor, _payors, "/v3/payor$"),
    Case(MakeConnectLink, _link, _linked, "/v2/link/token$"),
    Case(Deregister, _disconnect, _disconnected, "/v2/user/[0-9a-f-]+/[^/]+$"),
)
