"""Writes about people, insurance and lab accounts, against the sandbox's own tables."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest

from backoffice.service import Record, Service, errors
from backoffice.service.insurance import NewInsurance, NewInsured, NewPayor
from backoffice.service.users import NewAddress, NewGuarantor, NewUser, NewUserInfo, UserChange
from tests.contract.conftest import OTHER_TEAM
from tests.contract.test_orders import NOBODY, one
from tests.sandboxes import Sandbox, SandboxFactory

HOME = NewAddress(
    first_line="12 Sample Street", city="Phoenix", state="AZ", zip="85004", country="US"
)
NORA = {
    "first_name": "Nora",
    "last_name": "Notreal",
    "email": "nora@example.invalid",
    "phone_number": "+15550100001",
    "gender": "female",
    "dob": date(1980, 5, 6),
}


@pytest.fixture(scope="module")
def written(sandbox_factory: SandboxFactory, as_specified: bool) -> Sandbox:
    return sandbox_factory(as_specified=as_specified, users=25, orders=40, seed=29)


@pytest.fixture(scope="module")
def client(written: Sandbox) -> Iterator[Service]:
    with written.service() as service:
        yield service


def someone(client: Service) -> UUID:
    """A new user without anything."""
    return client.users.create(NewUser(client_user_id=f"made-up-{uuid.uuid4()}")).data.user_id


def alike(written: Record[Any], read: Record[Any]) -> bool:
    """The same values; the order of names may differ."""
    return bool(json.loads(written.raw) == json.loads(read.raw))


def info(**more: Any) -> NewUserInfo:
    return NewUserInfo(**{**NORA, "address": HOME, **more})


def test_users_create(client: Service, written: Sandbox) -> None:
    reference = f"made-up-{uuid.uuid4()}"
    body = NewUser(
        client_user_id=reference,
        fallback_time_zone="America/Phoenix",
        fallback_birth_date=date(1980, 5, 6),
        ingestion_start=date(2026, 1, 1),
    )
    made = client.users.create(body)
    read = client.users.get(made.data.user_id)
    assert alike(made, read) and read.data.client_user_id == reference
    assert read.data.fallback_time_zone and read.data.fallback_birth_date
    assert read.data.fallback_time_zone.id == "America/Phoenix"
    assert read.data.fallback_birth_date.value == date(1980, 5, 6)
    assert (read.data.ingestion_start, read.data.ingestion_end) == (date(2026, 1, 1), None)
    before = one(written, "SELECT count(*) FROM sandbox_user")
    with pytest.raises(errors.Duplicate) as taken:
        client.users.create(NewUser(client_user_id=reference))
    assert taken.value.existing_id == made.data.user_id and taken.value.message
    assert one(written, "SELECT count(*) FROM sandbox_user") == before


def test_users_update(client: Service, as_specified: bool) -> None:
    key = someone(client)
    client.users.update(key, UserChange(fallback_time_zone="America/Denver"))
    client.users.update(key, UserChange(ingestion_end=date(2027, 1, 1)))
    read = client.users.get(key).data
    assert read.fallback_time_zone and read.fallback_time_zone.id == "America/Denver"
    assert read.ingestion_end == date(2027, 1, 1)
    client.users.update(key, UserChange(fallback_time_zone=None))
    zone = client.users.get(key).data.fallback_time_zone
    assert (zone and zone.id) == ("UTC" if as_specified else None), "the specification requires one"
    with pytest.raises(errors.Refused) as refused:
        client.users.update(key, UserChange(fallback_time_zone="Nowhere/Land"))
    assert refused.value.message or refused.value.fields


def test_users_update_info(client: Service, as_specified: bool) -> None:
    key = someone(client)
    with pytest.raises(errors.Missing):
        client.users.info(key)
    proxy = NewGuarantor(
        first_name="Pat", last_name="Notreal", address=HOME, phone_number="+15550100002"
    )
    made = client.users.update_info(key, info(medical_proxy=proxy, ethnicity="hispanic"))
    read = client.users.info(key)
    assert alike(made, read)
    assert (read.data.first_name, read.data.dob, read.data.ethnicity) == (
        "Nora", date(1980, 5, 6), "hispanic",
    )  # fmt: skip
    assert read.data.address and (read.data.address.zip, read.data.address.country) == (
        "85004", None if as_specified else "US",
    )  # fmt: skip
    assert read.data.medical_proxy and read.data.medical_proxy.first_name == "Pat"
    for bent in ({"first_name": "Zoë"}, {"email": "nonsense"}, {"race": "nobody"}):
        with pytest.raises(errors.Refused) as refused:
            client.users.update_info(key, info(**bent))
        told = [field.path for field in refused.value.fields]
        assert told == [*bent] or refused.value.message


def test_users_deregister(client: Service) -> None:
    """Where the service says yes and nothing changes, the source is on the patient's device."""
    ended = 0
    for user in client.users.list().records:
        for source in user.data.connected_sources:
            assert source.provider
            client.users.deregister(user.data.user_id, source.provider.slug)
            left = client.users.connections(user.data.user_id).records
            slugs = {one.data.slug for one in left if one.data.status == "connected"}
            ended += source.provider.slug not in slugs
    assert ended
    with pytest.raises(errors.ServiceError) as refused:
        client.users.deregister(user.data.user_id, "no-such-provider")
    assert isinstance(refused.value, (errors.Refused, errors.Missing))


def test_users_create_link(client: Service) -> None:
    key = someone(client)
    first, second = (client.users.create_link(key).data.link_web_url for _ in range(2))
    assert first.startswith("https://") and first != second
    slug = client.wearables.providers().records[0].data.slug
    assert client.users.create_link(key, slug).data.link_web_url.startswith("https://")
    with pytest.raises(errors.Refused):
        client.users.create_link(key, "no-such-provider")


def insurance(**more: Any) -> NewInsurance:
    insured = NewInsured(**NORA, address=HOME)  # type: ignore[arg-type]
    given: dict[str, Any] = {
        "payor_code": "MEDFED",
        "member_id": f"M-{uuid.uuid4().hex[:8]}",
        "relationship": "Self",
        "insured": insured,
    }
    return NewInsurance(**{**given, **more})


def test_insurance_create(client: Service) -> None:
    key = someone(client)
    with pytest.raises(errors.ServiceError) as too_early:
        client.insurance.create(key, insurance())
    assert isinstance(too_early.value, (errors.Refused, errors.Missing)) and too_early.value.message
    client.users.update_info(key, info())
    first = client.insurance.create(key, insurance())
    second = insurance(
        is_primary=False,
        relationship="Spouse",
        group_id="G",
        guarantor=NewGuarantor(
            first_name="Pat", last_name="Notreal", address=HOME, phone_number="+15550100002"
        ),
    )
    other = client.insurance.create(key, second)
    read, secondary = client.insurance.latest(key), client.insurance.latest(key, is_primary=False)
    assert alike(read, first) and alike(secondary, other)
    assert (secondary.data.member_id, secondary.data.group_id) == (second.member_id, "G")
    assert (secondary.data.relationship, secondary.data.is_primary) == ("Spouse", False)
    for bent in ({"relationship": "Friend"}, {"payor_code": "no-such"}):
        with pytest.raises((errors.Refused, errors.Missing)) as refused:
            client.insurance.create(key, insurance(**bent))
        fields = getattr(refused.value, "fields", ())
        assert refused.value.message or [one.path for one in fields] == [*bent]


def test_insurance_create_payor(client: Service) -> None:
    made = client.insurance.create_payor(NewPayor(name="Notreal Health Plan", address=HOME)).data
    assert made.payor_code and made.name == "Notreal Health Plan" and made.source == "team"
    found = client.insurance.search_payors("Notreal Health Plan").records
    assert made.payor_code in {one.data.payor_code for one in found}


def test_insurance_validate_icd_codes(client: Service) -> None:
    codes = [one.data.diagnosis_code for one in client.insurance.search_diagnoses("a").records]
    good = client.insurance.validate_icd_codes(codes[:1]).data
    assert good.valid and good.errors == []
    bad = client.insurance.validate_icd_codes(["nonsense"]).data
    assert not bad.valid and bad.errors


def test_management_set_allowlist(client: Service) -> None:
    account = next(one.data for one in client.management.lab_accounts().records if one.data.org_id)
    other = UUID(OTHER_TEAM)
    wanted = [one for one in account.team_id_allowlist if one != other] + [other]

    def held() -> list[UUID]:
        records = client.management.lab_accounts(account.id).records
        return [team for one in records for team in one.data.team_id_allowlist]

    for teams in (wanted, list(account.team_id_allowlist)):
        answer = client.management.set_allowlist(account.id, teams)
        assert answer is None or set(answer.data.team_id_allowlist) == set(teams)
        assert set(held()) == set(teams)


@pytest.mark.parametrize(
    "act",
    [
        lambda s, key: s.users.update(key, UserChange(ingestion_end=None)),
        lambda s, key: s.users.update_info(key, info()),
        lambda s, key: s.users.deregister(key, "watch"),
        lambda s, key: s.users.create_link(key),
        lambda s, key: s.insurance.create(key, insurance()),
        lambda s, key: s.management.set_allowlist(key, []),
    ],
    ids=["update", "update_info", "deregister", "link", "insurance", "allowlist"],
)
def test_nobody_is_missing(client: Service, act: Callable[[Service, UUID], Any]) -> None:
    with pytest.raises((errors.Missing, errors.Refused)) as refused:
        act(client, NOBODY)
    if isinstance(refused.value, errors.Refused):  # nor is there such a provider
        assert [one.path for one in refused.value.fields] == ["provider"]
    else:
        assert refused.value.message


def test_personal_reference_is_refused(client: Service) -> None:
    for personal in ("nora@example.invalid", "+1 555 010 0165"):
        with pytest.raises(errors.Refused) as refused:
            client.users.create(NewUser(client_user_id=personal))
        assert [field.path for field in refused.value.fields] == ["client_user_id"]


def test_guarantor_is_optional_as_specified(client: Service, as_specified: bool) -> None:
    key = someone(client)
    client.users.update_info(key, info())
    alone = insurance(relationship="Spouse")
    if not as_specified:
        with pytest.raises(errors.Refused) as refused:
            client.insurance.create(key, alone)
        assert [field.path for field in refused.value.fields] == ["guarantor"]
        return
    client.insurance.create(key, alone)
    assert client.insurance.latest(key).data.guarantor is None


def test_income_of_a_guarantor_is_any_number(
    client: Service, written: Sandbox, as_specified: bool
) -> None:
    key = someone(client)
    client.users.update_info(key, info())
    home = {"first_line": "1 Sample Street", "city": "Phoenix", "state": "AZ", "zip_code": "85004"}
    income = 41250.5 if as_specified else 41250
    body = {
        "payor_code": "MUPLAN1",
        "member_id": "M-1",
        "relationship": "Other",
        "insured": {**NORA, "dob": "1980-05-06", "address": home},
        "guarantor": {
            "first_name": "Pat",
            "last_name": "Notreal",
            "address": home,
            "phone_number": "+15550100002",
            "household_income": income,
            "household_size": 2,
        },
    }
    path = f"{written.url}/v2/user/{key}/insurance"
    answer = httpx.post(path, json=body, headers={"x-service-api-key": "sk_us_local_sandbox"})
    assert answer.status_code == 200, answer.text
    read = client.insurance.latest(key).data
    assert read.guarantor and read.guarantor.household_income == income
    assert read.insured and read.insured.address
    assert (read.insured.address.zip, read.insured.address.country) == ("85004", "US")


def test_access_notes_of_a_payor_come_back(client: Service) -> None:
    place = msgspec.structs.replace(HOME, access_notes="Suite 4, ring for access")
    made = client.insurance.create_payor(NewPayor(name="Noted Health Plan", address=place)).data
    found = client.insurance.search_payors("Noted Health Plan").records[0].data
    for payor in (made, found):
        assert payor.org_address and payor.org_address.access_notes == place.access_notes
