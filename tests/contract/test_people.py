"""Calls about users, insurance, the catalogue and lab accounts, against the sandbox's tables."""

from __future__ import annotations

import contextlib
from typing import Any
from uuid import UUID

import pytest

from backoffice.service import RecordPage, Service, errors
from backoffice.service.labs import LabAccountPayload, LabTestPayload, MarkerPayload
from backoffice.service.users import HistoricalPullReport, UserPayload
from tests.contract.test_orders import NOBODY, TEAM, one
from tests.sandboxes import Sandbox

LIVE = f"team_id = '{TEAM}' AND deleted_at IS NULL"
OTHER_TEAM = "7ea00000-0000-4000-8000-000000000002"


def users(client: Service, limit: int) -> list[UserPayload]:
    found: list[UserPayload] = []
    while True:
        page = client.users.list(offset=len(found), limit=limit)
        assert page.unreadable == [] and page.offset == len(found)
        found += [record.data for record in page.records]
        if len(found) >= (page.total or 0):
            assert len(found) == page.total
            return found


@pytest.mark.parametrize("limit", [17, 500])
def test_users_list(client: Service, asked_sandbox: Sandbox, limit: int) -> None:
    zone = "coalesce(fallback_time_zone, 'UTC')"  # the specification requires one
    rows = asked_sandbox.query(
        "SELECT id, client_user_id, created_on, team_id, ingestion_start, ingestion_end,"
        f" {zone if asked_sandbox.as_specified else 'fallback_time_zone'}, fallback_birth_date"
        f" FROM sandbox_user WHERE {LIVE} ORDER BY seq"
    )
    assert len(rows) >= 100
    assert [
        (
            u.user_id, u.client_user_id, u.created_on, u.team_id, u.ingestion_start,
            u.ingestion_end, u.fallback_time_zone and u.fallback_time_zone.id,
            u.fallback_birth_date and u.fallback_birth_date.value,
        )
        for u in users(client, limit)
    ] == rows  # fmt: skip


def connected(sandbox: Sandbox) -> UUID:
    key: UUID = one(
        sandbox,
        "SELECT user_id FROM sandbox_connection c JOIN sandbox_user u ON u.id = c.user_id"
        f" WHERE u.{LIVE} GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
    )
    return key


def test_users_get(client: Service, asked_sandbox: Sandbox) -> None:
    key = connected(asked_sandbox)
    user = client.users.get(key).data
    sources = asked_sandbox.query(
        "SELECT provider_id, created_on FROM sandbox_connection WHERE user_id = %s"
        " ORDER BY created_on, id",
        [key],
    )
    assert user.user_id == key
    assert [
        (source.provider.slug if source.provider else None, source.created_on)
        for source in user.connected_sources
    ] == sources


def test_users_resolve(client: Service, asked_sandbox: Sandbox) -> None:
    key, reference = asked_sandbox.query(
        f"SELECT id, client_user_id FROM sandbox_user WHERE {LIVE} ORDER BY seq OFFSET 9 LIMIT 1"
    )[0]
    assert client.users.resolve(reference).data.user_id == key
    for unknown in ("nobody", "no/body", "..", "a b?c#d%e"):
        with pytest.raises(errors.Missing):
            client.users.resolve(unknown)


def test_users_info(client: Service, asked_sandbox: Sandbox) -> None:
    row = asked_sandbox.query(
        "SELECT i.user_id, first_name, last_name, email, phone_number, gender, dob, first_line,"
        " second_line, city, state, zip, race, ethnicity, country FROM sandbox_userinfo i"
        f" JOIN sandbox_user u ON u.id = i.user_id WHERE u.{LIVE} ORDER BY u.seq LIMIT 1"
    )[0]
    info = client.users.info(row[0]).data
    place = info.address
    assert place is not None
    assert (
        info.first_name, info.last_name, info.email, info.phone_number, info.gender, info.dob,
        place.first_line, place.second_line, place.city, place.state, place.zip, info.race,
        info.ethnicity,
    ) == row[1:-1]  # fmt: skip
    # The specification's example has no country.
    assert place.country == (None if asked_sandbox.as_specified else row[-1])
    without = one(
        asked_sandbox,
        f"SELECT id FROM sandbox_user u WHERE {LIVE} AND NOT EXISTS"
        " (SELECT FROM sandbox_userinfo i WHERE i.user_id = u.id) LIMIT 1",
    )
    with pytest.raises(errors.Missing):
        client.users.info(without)


def test_users_connections(client: Service, asked_sandbox: Sandbox) -> None:
    key = one(
        asked_sandbox,
        "SELECT user_id FROM sandbox_connection c JOIN sandbox_user u ON u.id = c.user_id"
        f" WHERE u.{LIVE} AND c.status = 'error' LIMIT 1",
    )
    rows = asked_sandbox.query(
        "SELECT provider_id, status, created_on, external_user_id,"
        " CASE WHEN status = 'error' THEN error_type END FROM sandbox_connection"
        " WHERE user_id = %s ORDER BY created_on, id",
        [key],
    )
    found = [record.data for record in client.users.connections(key).records]
    assert [
        (
            c.slug, c.status, c.created_on, c.external_user_id,
            c.error_details.error_type if c.error_details else None,
        )
        for c in found
    ] == rows  # fmt: skip
    assert any(c.resource_availability for c in found)


def pulls(client: Service, **asked: Any) -> dict[tuple[UUID, str, str], str]:
    """(user, provider, resource): status, over all pages."""
    found: dict[tuple[UUID, str, str], str] = {}
    cursor: str | None = None
    while True:
        page: RecordPage[HistoricalPullReport] = client.users.historical_pulls(
            next_cursor=cursor, **asked
        )
        for record in page.records:
            report = record.data
            for entry in report.entries():
                assert entry.pull is not None
                found[report.user_id, entry.provider, entry.resource] = entry.pull.status
            for provider, each in report.provider.items():
                for resource in each.not_pulled:
                    found[report.user_id, provider, resource] = "not_pulled"
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("asked", [{}, {"user_limit": 7}, "user_id", "provider"])
def test_users_historical_pulls(client: Service, asked_sandbox: Sandbox, asked: Any) -> None:
    where = "true"
    if isinstance(asked, str):
        column = "h.user_id" if asked == "user_id" else "h.provider_id"
        value = one(
            asked_sandbox,
            f"SELECT {column} FROM sandbox_historicalpull h JOIN sandbox_user u"
            f" ON u.id = h.user_id WHERE u.{LIVE} ORDER BY 1 LIMIT 1",
        )
        asked, where = {asked: value}, f"{column} = '{value}'"
    rows = asked_sandbox.query(
        "SELECT h.user_id, h.provider_id, h.resource, coalesce(h.status, 'not_pulled')"
        " FROM sandbox_historicalpull h JOIN sandbox_user u ON u.id = h.user_id"
        f" WHERE u.{LIVE} AND {where}"
    )
    assert rows and pulls(client, **asked) == {row[:3]: row[3] for row in rows}


# Insurance


@pytest.mark.parametrize("is_primary", [True, False])
def test_insurance_latest(client: Service, asked_sandbox: Sandbox, is_primary: bool) -> None:
    row = asked_sandbox.query(
        "SELECT DISTINCT ON (i.user_id) i.user_id, i.payor_id, i.member_id, i.group_id,"
        " i.relationship, i.is_primary, p.name, i.insured->>'last_name', i.guarantor IS NULL"
        " FROM sandbox_insurance i JOIN sandbox_payor p ON p.payor_code = i.payor_id"
        f" JOIN sandbox_user u ON u.id = i.user_id WHERE u.{LIVE} AND i.is_primary = %s"
        " ORDER BY i.user_id, i.created_at DESC, i.id DESC LIMIT 1",
        [is_primary],
    )[0]
    found = client.insurance.latest(row[0], is_primary).data
    assert found.company is not None and found.insured is not None
    assert (
        found.payor_code, found.member_id, found.group_id, found.relationship, found.is_primary,
        found.company.name, found.insured.last_name, found.guarantor is None,
    ) == row[1:]  # fmt: skip
    without = one(
        asked_sandbox,
        f"SELECT id FROM sandbox_user u WHERE {LIVE} AND NOT EXISTS (SELECT FROM"
        " sandbox_insurance i WHERE i.user_id = u.id AND i.is_primary = %s) LIMIT 1",
        [is_primary],
    )
    with pytest.raises(errors.Missing):
        client.insurance.latest(without, is_primary)


def test_insurance_search_payors(client: Service, asked_sandbox: Sandbox) -> None:
    everyone = asked_sandbox.query(
        "SELECT payor_code, name, aliases, CASE WHEN team_id IS NULL THEN 'platform' ELSE 'team'"
        f" END FROM sandbox_payor WHERE team_id IS NULL OR team_id = '{TEAM}' ORDER BY name, 1"
    )
    found = [r.data for r in client.insurance.search_payors().records]
    assert [(p.payor_code, p.name, p.aliases, p.source) for p in found] == everyone
    part = everyone[0][1][2:6].upper()
    named = client.insurance.search_payors(insurance_name=part).records
    assert {r.data.payor_code for r in named} == {
        code for code, name, aliases, _ in everyone
        if any(part.lower() in text.lower() for text in (name, *aliases))
    }  # fmt: skip
    provider, code, payor = asked_sandbox.query(
        "SELECT k, p.provider_payor_ids->>k, payor_code FROM sandbox_payor p,"
        " jsonb_object_keys(p.provider_payor_ids) k WHERE team_id IS NULL ORDER BY 3, 1 LIMIT 1"
    )[0]
    by_code = client.insurance.search_payors(provider=provider, provider_payor_id=code)
    assert payor in {r.data.payor_code for r in by_code.records}
    assert client.insurance.search_payors(insurance_name="no such payor").records == []


def test_insurance_search_diagnoses(client: Service, asked_sandbox: Sandbox) -> None:
    code, words = asked_sandbox.query(
        "SELECT code, description FROM sandbox_diagnosiscode ORDER BY code LIMIT 1"
    )[0]
    for query in (code[:3].lower(), words[1:8]):
        rows = asked_sandbox.query(
            "SELECT code, description, is_secondary FROM sandbox_diagnosiscode"
            " WHERE code ILIKE %s OR description ILIKE %s ORDER BY code LIMIT 50",
            [f"{query}%", f"%{query}%"],
        )
        found = [r.data for r in client.insurance.search_diagnoses(query).records]
        assert [(d.diagnosis_code, d.description, d.is_secondary) for d in found] == rows != []


# The catalogue


def test_labs_labs(client: Service, asked_sandbox: Sandbox) -> None:
    rows = asked_sandbox.query(
        "SELECT id, slug, name, city, collection_methods, sample_types FROM sandbox_lab ORDER BY id"
    )
    found = [r.data for r in client.labs.labs().records]
    assert [
        (lab.id, lab.slug, lab.name, lab.city, lab.collection_methods, lab.sample_types)
        for lab in found
    ] == rows


def lab_tests(client: Service, limit: int, **asked: Any) -> list[LabTestPayload]:
    found: list[LabTestPayload] = []
    cursor: str | None = None
    while True:
        page = client.labs.lab_tests(limit, cursor, **asked)
        assert len(page.records) <= limit and page.unreadable == []
        found += [record.data for record in page.records]
        cursor = page.next_cursor
        if cursor is None:
            return found


MINE = f"(t.team_id IS NULL OR t.team_id = '{TEAM}')"
_HOLDS = "EXISTS (SELECT FROM sandbox_labtestmarker m JOIN sandbox_marker k ON k.id = m.marker_id"
TEST_FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "true"),
    ({"generation_method": "manual"}, "NOT auto_generated"),
    ({"generation_method": "auto"}, "auto_generated"),
    ({"lab_slug": "SELECT slug FROM sandbox_lab ORDER BY id LIMIT 1"}, "l.slug = %(value)s"),
    ({"collection_method": "SELECT method FROM sandbox_labtest LIMIT 1"}, "method = %(value)s"),
    ({"status": "SELECT status FROM sandbox_labtest LIMIT 1"}, "status = %(value)s"),
    ({"name": "SELECT upper(left(name, 4)) FROM sandbox_labtest LIMIT 1"},
     "t.name ILIKE '%%' || %(value)s || '%%'"),
    ({"marker_ids": "SELECT marker_id FROM sandbox_labtestmarker ORDER BY 1 LIMIT 1"},
     f"{_HOLDS} WHERE m.lab_test_id = t.id AND k.id = %(value)s)"),
    ({"provider_ids": "SELECT provider_id FROM sandbox_marker k JOIN sandbox_labtestmarker m"
      " ON m.marker_id = k.id ORDER BY 1 LIMIT 1"},
     f"{_HOLDS} WHERE m.lab_test_id = t.id AND k.provider_id = %(value)s)"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "where"), TEST_FILTERS, ids=lambda v: str(v)[:30])
def test_labs_lab_tests(
    client: Service, asked_sandbox: Sandbox, asked: dict[str, Any], where: str
) -> None:
    value = None
    for name, given in asked.items():
        if given.startswith("SELECT"):
            value = one(asked_sandbox, given)
            asked = {name: [value] if name.endswith("_ids") else value}
    rows = asked_sandbox.query(
        "SELECT t.id FROM sandbox_labtest t JOIN sandbox_lab l ON l.id = t.lab_id"
        f" WHERE {MINE} AND {where} ORDER BY t.created_at, t.id",
        {"value": value},
    )
    assert rows or asked.get("generation_method") == "auto"
    for limit in (2, 50):
        assert [test.id for test in lab_tests(client, limit, **asked)] == [row[0] for row in rows]


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_labs_lab_tests_sorted(client: Service, direction: str) -> None:
    found = lab_tests(client, 3, order_key="price", order_direction=direction)
    prices = [test.price or 0 for test in found]
    assert prices == sorted(prices, reverse=direction == "desc") and len(set(prices)) > 1


def test_labs_lab_test(client: Service, asked_sandbox: Sandbox) -> None:
    rows = asked_sandbox.query(
        "SELECT id, name, method, price_minor / 100.0::float8, status FROM sandbox_labtest t"
        f" WHERE {MINE}"
    )
    assert rows
    for key, name, method, price, status in rows:
        test = client.labs.lab_test(key).data
        assert (test.id, test.name, test.method, test.price, test.status) == (
            key, name, method, price, status,
        )  # fmt: skip
        assert test.lab is not None and test.markers


def account_of(sandbox: Sandbox) -> tuple[UUID, int]:
    key, lab = sandbox.query(
        "SELECT a.id, a.lab_id FROM sandbox_labaccount a JOIN sandbox_labaccount_markers m"
        f" ON m.labaccount_id = a.id WHERE '{TEAM}' = ANY(team_id_allowlist) LIMIT 1"
    )[0]
    return key, lab


ORDERABLE = "is_active AND is_orderable AND NOT is_reflex"


def markers(client: Service, **asked: Any) -> list[MarkerPayload]:
    found: list[MarkerPayload] = []
    number = 1
    while True:
        page = client.labs.markers(number, 20, **asked)
        found += [record.data for record in page.records]
        if number * 20 >= (page.total or 0):
            assert len(found) == page.total
            return found
        number += 1


@pytest.mark.parametrize("asked", ["all", "lab_id", "lab_slug", "name", "a_la_carte", "account"])
def test_labs_markers(client: Service, asked_sandbox: Sandbox, asked: str) -> None:
    """Scoped by lab, name and account; reflex markers are never among them."""
    account, lab = account_of(asked_sandbox)
    slug = one(asked_sandbox, "SELECT slug FROM sandbox_lab WHERE id = %s", [lab])
    name = one(asked_sandbox, f"SELECT left(name, 5) FROM sandbox_marker WHERE {ORDERABLE} LIMIT 1")
    given, where = {
        "all": ({}, "true"),
        "lab_id": ({"lab_id": lab}, f"lab_id = {lab}"),
        "lab_slug": ({"lab_slug": slug, "lab_id": lab + 1}, f"lab_id = {lab}"),
        "name": (
            {"name": name},
            f"(name ILIKE '%%{name}%%' OR provider_id ILIKE '%%{name}%%')",
        ),
        "a_la_carte": ({"a_la_carte_enabled": True}, "a_la_carte_enabled"),
        "account": (
            {"lab_account_id": account},
            "id IN (SELECT marker_id FROM sandbox_labaccount_markers"
            f" WHERE labaccount_id = '{account}')",
        ),
    }[asked]
    rows = asked_sandbox.query(
        f"SELECT id FROM sandbox_marker WHERE {ORDERABLE} AND {where} ORDER BY id".replace(
            "%%", "%"
        )
    )
    assert rows and [marker.id for marker in markers(client, **given)] == [r[0] for r in rows]


def test_labs_lab_test_markers(client: Service, asked_sandbox: Sandbox) -> None:
    """Reflex markers included, each with the results it is expected to bring."""
    key = one(
        asked_sandbox,
        "SELECT m.lab_test_id FROM sandbox_labtestmarker m JOIN sandbox_marker r"
        f" ON r.reflex_of_id = m.marker_id JOIN sandbox_labtest t ON t.id = m.lab_test_id"
        f" WHERE {MINE} LIMIT 1",
    )
    rows = asked_sandbox.query(
        "SELECT k.id, k.name, array_agg(e.id ORDER BY e.id) FROM sandbox_marker k"
        " JOIN sandbox_expectedresult e ON e.marker_id = k.id"
        " WHERE k.id IN (SELECT marker_id FROM sandbox_labtestmarker WHERE lab_test_id = %(key)s)"
        " OR (k.is_reflex AND k.reflex_of_id IN"
        "  (SELECT marker_id FROM sandbox_labtestmarker WHERE lab_test_id = %(key)s))"
        " GROUP BY k.id ORDER BY k.id",
        {"key": key},
    )
    page = client.labs.lab_test_markers(key)
    assert page.total == len(rows)
    assert [
        (r.data.id, r.data.name, [e.id for e in r.data.expected_results]) for r in page.records
    ] == rows
    listed = {marker.id for marker in markers(client)}
    assert {row[0] for row in rows} - listed, "no reflex marker to tell the lists apart"


def test_labs_lab_tests_of_an_account(client: Service, asked_sandbox: Sandbox) -> None:
    """The account decides which tests there are, alone and in the list, and so of their markers."""
    account, lab = account_of(asked_sandbox)
    rows = asked_sandbox.query(
        "SELECT t.id, o.labtest_id IS NOT NULL FROM sandbox_labtest t"
        " LEFT JOIN sandbox_labaccount_lab_tests o ON o.labtest_id = t.id AND o.labaccount_id = %s"
        f" WHERE t.lab_id = %s AND {MINE} ORDER BY t.created_at, t.id",
        [account, lab],
    )
    offered = [key for key, is_offered in rows if is_offered]
    assert offered and len(offered) < len(rows)
    assert [test.id for test in lab_tests(client, 50, lab_account_id=account)] == offered
    for key, is_offered in rows:
        for read in (client.labs.lab_test, client.labs.lab_test_markers):
            with contextlib.nullcontext() if is_offered else pytest.raises(errors.Missing):
                read(key, lab_account_id=account)


def accounts(page: RecordPage[LabAccountPayload]) -> dict[UUID, tuple[str, str, list[UUID]]]:
    assert page.unreadable == []
    return {r.data.id: (r.data.lab, r.data.status, r.data.team_id_allowlist) for r in page.records}


def accounts_held(sandbox: Sandbox, where: str) -> dict[UUID, tuple[str, str, list[UUID]]]:
    rows = sandbox.query(
        "SELECT a.id, l.slug, a.status, a.team_id_allowlist FROM sandbox_labaccount a"
        f" JOIN sandbox_lab l ON l.id = a.lab_id WHERE {where}"
    )
    return {row[0]: row[1:] for row in rows}


def test_labs_lab_accounts(client: Service, asked_sandbox: Sandbox) -> None:
    mine = f"'{TEAM}' = ANY(team_id_allowlist)"
    held = accounts_held(asked_sandbox, mine)
    assert accounts(client.labs.lab_accounts()) == held
    key = min(held)
    assert accounts(client.labs.lab_accounts(lab_account_id=key)) == {key: held[key]}
    for status in {row[1] for row in held.values()}:
        wanted = accounts_held(asked_sandbox, f"{mine} AND status = '{status}'")
        assert accounts(client.labs.lab_accounts(status=status)) == wanted


def test_labs_physicians(client: Service, asked_sandbox: Sandbox) -> None:
    rows = asked_sandbox.query(
        "SELECT npi, first_name, last_name FROM sandbox_physician WHERE team_id = %s"
        " ORDER BY last_name, npi",
        [TEAM],
    )
    found = [r.data for r in client.labs.physicians(TEAM).records]
    assert [(p.npi, p.first_name, p.last_name) for p in found] == rows != []
    with pytest.raises(errors.Denied):
        client.labs.physicians(OTHER_TEAM)


def test_management_lab_accounts(client: Service, asked_sandbox: Sandbox) -> None:
    """The organization's accounts, those of other teams included."""
    org = "org_id = '0d4f7c1e-0000-4000-8000-00000000c11c'"
    held = accounts_held(asked_sandbox, org)
    assert accounts(client.management.lab_accounts()) == held
    assert set(held) - set(accounts(client.labs.lab_accounts()))
    for team in (TEAM, OTHER_TEAM):
        wanted = accounts_held(asked_sandbox, f"{org} AND '{team}' = ANY(team_id_allowlist)")
        assert accounts(client.management.lab_accounts(team_id=team)) == wanted
    key = min(held)
    assert accounts(client.management.lab_accounts(lab_account_id=key)) == {key: held[key]}
    status = held[key][1]
    wanted = accounts_held(asked_sandbox, f"{org} AND status = '{status}'")
    assert accounts(client.management.lab_accounts(status=status)) == wanted


@pytest.mark.parametrize("kind", [None, "SELECT source_type FROM sandbox_provider LIMIT 1"])
def test_wearables_providers(client: Service, asked_sandbox: Sandbox, kind: str | None) -> None:
    value = kind and one(asked_sandbox, kind)
    rows = asked_sandbox.query(
        "SELECT slug, name, description, logo, auth_type, supported_resources"
        " FROM sandbox_provider WHERE %(v)s::text IS NULL OR source_type = %(v)s ORDER BY slug",
        {"v": value},
    )
    found = [r.data for r in client.wearables.providers(value).records]
    assert (
        [(p.slug, p.name, p.description, p.logo, p.auth_type, p.supported_resources) for p in found]
        == rows
        != []
    )


def test_nobody(client: Service) -> None:
    """An id nobody has is Missing, whatever is asked of it."""
    for call in (client.users.get, client.users.info, client.users.connections):
        with pytest.raises(errors.Missing):
            call(NOBODY)
