"""An owner of the tables can disable the triggers, but checks find every tampering."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest
from django.db import connection

from backoffice.audit import seals, verification
from backoffice.audit.models import AuditEntry, AuditReview, AuditSeal
from tests.api.rows import NOW, staff
from tests.audit.trail import (
    ENTRIES,
    SEALS,
    as_table_owner,
    assert_refused,
    create_entries,
    rolled_back,
    set_keep_years,
    sql,
)

pytestmark = pytest.mark.django_db

TAMPER_COUNT: Final = 100


def edit(rng: random.Random, key: int) -> None:
    change = rng.choice(
        (
            "action = 'list'",
            "object_ids = '{}'",
            "patient_ids = '{}'",
            "at = at - interval '1 second'",
            "reason = 'x' || reason",
            "actor_kind = 'token'",
            "ip = NULL",
            "after = '{\"roles\": 1}'",
        )
    )
    sql(f"UPDATE {ENTRIES} SET {change} WHERE id = %s", key)


def delete(rng: random.Random, key: int) -> None:
    sql(f"DELETE FROM {ENTRIES} WHERE id = %s", key)


def swap(rng: random.Random, key: int) -> None:
    other = rng.choice([one for one in entry_ids() if one != key])
    sql(f"UPDATE {ENTRIES} SET id = -1 WHERE id = %s", key)
    sql(f"UPDATE {ENTRIES} SET id = %s WHERE id = %s", key, other)
    sql(f"UPDATE {ENTRIES} SET id = %s WHERE id = -1", other)


def insert(rng: random.Random, key: int) -> None:
    """Insert in the gap of a rolled-back insert, or before all others."""
    free = sorted(set(range(min(entry_ids()) - 3, max(entry_ids()))) - set(entry_ids()))
    columns = "at, actor_kind, action, object_type, object_ids, patient_ids, route, request_id, ip,"
    columns += " outcome, reason"
    sql(
        f"INSERT INTO {ENTRIES} (id, {columns}) SELECT %s, {columns} FROM {ENTRIES} WHERE id = %s",
        rng.choice(free),
        key,
    )


def delete_and_update_digest(rng: random.Random, key: int) -> None:
    """Change everything that needs no key: the digest matches, the code cannot."""
    sql(f"DELETE FROM {ENTRIES} WHERE id = %s", key)
    n = sql(f"SELECT n FROM {SEALS} WHERE %s BETWEEN from_id AND to_id", key)
    sql(
        f"UPDATE {SEALS} AS s SET (rows, digest) = (SELECT count(*), {seals.DIGEST}"
        f" FROM {ENTRIES} AS e WHERE e.id BETWEEN s.from_id AND s.to_id) WHERE n = %s",
        n,
    )


def delete_seal(rng: random.Random, key: int) -> None:
    sql(f"DELETE FROM {SEALS} WHERE n = %s", rng.randint(1, last_seal_number() - 1))


def edit_seal(rng: random.Random, key: int) -> None:
    change = rng.choice(("at = at - interval '1 day'", "mac = sha256(mac)", "prev = sha256(prev)"))
    sql(f"UPDATE {SEALS} SET {change} WHERE n = %s", rng.randint(1, last_seal_number()))


def fake_removal(rng: random.Random, key: int) -> None:
    sql(f"DELETE FROM {ENTRIES} WHERE id <= (SELECT to_id FROM {SEALS} WHERE n = 1)")
    sql(
        f"INSERT INTO {SEALS} SELECT n + 1, true, (SELECT from_id FROM {SEALS} WHERE n = 1),"
        f" (SELECT to_id FROM {SEALS} WHERE n = 1), rows, form, digest, mac, key_id, mac, at"
        f" FROM {SEALS} ORDER BY n DESC LIMIT 1"
    )


TAMPERINGS: Final[tuple[Callable[[random.Random, int], None], ...]] = (
    edit,
    delete,
    swap,
    insert,
    delete_and_update_digest,
    delete_seal,
    edit_seal,
    fake_removal,
)


def entry_ids() -> list[int]:
    return list(AuditEntry.objects.order_by("pk").values_list("pk", flat=True))


def last_seal_number() -> int:
    return AuditSeal.objects.order_by("-n")[0].n


@pytest.fixture
def sealed_log() -> None:
    """Six seals over entries with gaps between their IDs."""
    for count in (40, 3, 17, 1, 60, 25):
        create_entries(count)
        with rolled_back():
            create_entries(3)
        seals.seal()
    assert verification.check_chain().trouble == []


def test_each_of_a_hundred_tamperings_is_found(sealed_log: None) -> None:
    rng = random.Random(17)
    missed = []
    for number in range(TAMPER_COUNT):
        tamper = TAMPERINGS[number % len(TAMPERINGS)]
        with rolled_back():
            with as_table_owner():
                tamper(rng, rng.choice(entry_ids()))
            if not verification.check_chain().troubles:
                missed.append(tamper.__name__)
    assert missed == []
    assert verification.check_chain().trouble == []


def test_cut_end_is_found_with_a_stored_head(sealed_log: None) -> None:
    remembered = seals.head()
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id >= (SELECT from_id FROM {SEALS} WHERE n = 5)")
        sql(f"DELETE FROM {SEALS} WHERE n >= 5")
    assert verification.check_chain().trouble == []
    assert "cut off" in verification.check_chain(heads=[remembered]).trouble[0]
    # Sealing new entries does not hide the cut.
    create_entries(500)
    seals.seal()
    assert "cut off" in verification.check_chain(heads=[remembered]).trouble[0]


def test_deleted_log_is_found_with_a_stored_head(sealed_log: None) -> None:
    remembered = seals.head()
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES}")
        sql(f"DELETE FROM {SEALS}")
    assert verification.check_chain(heads=[remembered]).troubles == 1


def test_finding_names_the_seal(sealed_log: None) -> None:
    first = AuditSeal.objects.get(n=2)
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = %s", first.to_id)
    (words,) = verification.check_chain().trouble
    assert words.startswith(f"Seal 2 (entries {first.from_id} to {first.to_id}, made ")
    assert words.endswith("1 entry missing.")


def test_number_of_findings_is_limited(sealed_log: None) -> None:
    for _ in range(60):
        create_entries(1)
        seals.seal()
    with as_table_owner():
        sql(f"UPDATE {ENTRIES} SET reason = 'x'")
    found = verification.check_chain()
    assert found.troubles == 66
    assert len(found.findings) == 51 and found.findings[-1] == "And 16 more."


# Triggers


@pytest.fixture
def ordinary_role() -> None:
    """A role with all grants that owns nothing; it is rolled back with the test."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE audit_ordinary")
        cursor.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO audit_ordinary")


STATEMENTS: Final = (
    "UPDATE {} SET {} = {}",
    "DELETE FROM {}",
    "TRUNCATE {} CASCADE",
)


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize(
    ("table", "column"), [(ENTRIES, "at"), (SEALS, "at"), ("audit_auditreview", "at")]
)
@pytest.mark.parametrize("role", ["owner", "ordinary_role"])
def test_triggers_refuse_every_change(
    ordinary_role: None, sealed_log: None, statement: str, table: str, column: str, role: str
) -> None:
    AuditReview.objects.create(month=NOW.date().replace(day=1), by=staff("auditor"))
    before = sql(f"SELECT count(*) FROM {table}")
    assert before
    sql("SET CONSTRAINTS ALL IMMEDIATE")
    role_name = "audit_ordinary" if role == "ordinary" else "NONE"
    assert_refused(f"SET LOCAL ROLE {role_name}", statement.format(table, column, column))
    assert sql(f"SELECT count(*) FROM {table}") == before
    assert verification.check_chain().trouble == []


def test_truncating_referenced_table_is_refused(sealed_log: None) -> None:
    sql("SET CONSTRAINTS ALL IMMEDIATE")
    assert_refused("TRUNCATE accounts_user CASCADE")


def test_keep_years_setting_does_not_bypass_triggers(sealed_log: None) -> None:
    for years in ("1", "0", "-5", ""):
        assert_refused(set_keep_years(years), f"DELETE FROM {ENTRIES}")
