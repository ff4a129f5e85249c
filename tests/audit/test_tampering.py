"""Whoever owns the tables can switch off what guards them: then it shows."""

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
    entries,
    keeping,
    owner,
    refused,
    sql,
    undone,
)

pytestmark = pytest.mark.django_db

TIMES: Final = 100


def edit(luck: random.Random, key: int) -> None:
    what = luck.choice(
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
    sql(f"UPDATE {ENTRIES} SET {what} WHERE id = %s", key)


def delete(luck: random.Random, key: int) -> None:
    sql(f"DELETE FROM {ENTRIES} WHERE id = %s", key)


def swap(luck: random.Random, key: int) -> None:
    other = luck.choice([one for one in ids() if one != key])
    sql(f"UPDATE {ENTRIES} SET id = -1 WHERE id = %s", key)
    sql(f"UPDATE {ENTRIES} SET id = %s WHERE id = %s", key, other)
    sql(f"UPDATE {ENTRIES} SET id = %s WHERE id = -1", other)


def insert(luck: random.Random, key: int) -> None:
    """In the gap that an insert left which was rolled back, or before all others."""
    free = sorted(set(range(min(ids()) - 3, max(ids()))) - set(ids()))
    columns = "at, actor_kind, action, object_type, object_ids, patient_ids, route, request_id, ip,"
    columns += " outcome, reason"
    sql(
        f"INSERT INTO {ENTRIES} (id, {columns}) SELECT %s, {columns} FROM {ENTRIES} WHERE id = %s",
        luck.choice(free),
        key,
    )


def edit_and_seal_anew(luck: random.Random, key: int) -> None:
    """With everything but the key: the digest fits, the code cannot."""
    sql(f"DELETE FROM {ENTRIES} WHERE id = %s", key)
    n = sql(f"SELECT n FROM {SEALS} WHERE %s BETWEEN from_id AND to_id", key)
    sql(
        f"UPDATE {SEALS} AS s SET (rows, digest) = (SELECT count(*), {seals.DIGEST}"
        f" FROM {ENTRIES} AS e WHERE e.id BETWEEN s.from_id AND s.to_id) WHERE n = %s",
        n,
    )


def remove_a_seal(luck: random.Random, key: int) -> None:
    sql(f"DELETE FROM {SEALS} WHERE n = %s", luck.randint(1, last() - 1))


def edit_a_seal(luck: random.Random, key: int) -> None:
    what = luck.choice(("at = at - interval '1 day'", "mac = sha256(mac)", "prev = sha256(prev)"))
    sql(f"UPDATE {SEALS} SET {what} WHERE n = %s", luck.randint(1, last()))


def pretend_they_grew_old(luck: random.Random, key: int) -> None:
    sql(f"DELETE FROM {ENTRIES} WHERE id <= (SELECT to_id FROM {SEALS} WHERE n = 1)")
    sql(
        f"INSERT INTO {SEALS} SELECT n + 1, true, (SELECT from_id FROM {SEALS} WHERE n = 1),"
        f" (SELECT to_id FROM {SEALS} WHERE n = 1), rows, form, digest, mac, key_id, mac, at"
        f" FROM {SEALS} ORDER BY n DESC LIMIT 1"
    )


KINDS: Final[tuple[Callable[[random.Random, int], None], ...]] = (
    edit,
    delete,
    swap,
    insert,
    edit_and_seal_anew,
    remove_a_seal,
    edit_a_seal,
    pretend_they_grew_old,
)


def ids() -> list[int]:
    return list(AuditEntry.objects.order_by("pk").values_list("pk", flat=True))


def last() -> int:
    return AuditSeal.objects.order_by("-n")[0].n


@pytest.fixture
def trail() -> None:
    """Six seals over entries whose ids have gaps."""
    for count in (40, 3, 17, 1, 60, 25):
        entries(count)
        with undone():
            entries(3)
        seals.seal()
    assert verification.check_chain().trouble == []


def test_each_of_a_hundred_tamperings_shows(trail: None) -> None:
    luck = random.Random(17)
    unseen = []
    for number in range(TIMES):
        tamper = KINDS[number % len(KINDS)]
        with undone():
            with owner():
                tamper(luck, luck.choice(ids()))
            if not verification.check_chain().troubles:
                unseen.append(tamper.__name__)
    assert unseen == []
    assert verification.check_chain().trouble == []


def test_a_cut_end_shows_to_who_remembers_it(trail: None) -> None:
    remembered = seals.head()
    with owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id >= (SELECT from_id FROM {SEALS} WHERE n = 5)")
        sql(f"DELETE FROM {SEALS} WHERE n >= 5")
    assert verification.check_chain().trouble == []
    assert "cut off" in verification.check_chain(heads=[remembered]).trouble[0]
    # Nor does it help to seal what came since.
    entries(500)
    seals.seal()
    assert "cut off" in verification.check_chain(heads=[remembered]).trouble[0]


def test_all_of_it_gone_shows_as_well(trail: None) -> None:
    remembered = seals.head()
    with owner():
        sql(f"DELETE FROM {ENTRIES}")
        sql(f"DELETE FROM {SEALS}")
    assert verification.check_chain(heads=[remembered]).troubles == 1


def test_what_is_said_names_the_place(trail: None) -> None:
    first = AuditSeal.objects.get(n=2)
    with owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = %s", first.to_id)
    (words,) = verification.check_chain().trouble
    assert words.startswith(f"Seal 2 (entries {first.from_id} to {first.to_id}, made ")
    assert words.endswith("1 entry missing.")


def test_a_thousand_troubles_are_not_told_one_by_one(trail: None) -> None:
    for _ in range(60):
        entries(1)
        seals.seal()
    with owner():
        sql(f"UPDATE {ENTRIES} SET reason = 'x'")
    found = verification.check_chain()
    assert found.troubles == 66
    assert len(found.findings) == 51 and found.findings[-1] == "And 16 more."


# The triggers


@pytest.fixture
def ordinary() -> None:
    """A role that was granted everything and owns nothing; rolled back with the test."""
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
@pytest.mark.parametrize("role", ["owner", "ordinary"])
def test_nothing_can_be_changed(
    ordinary: None, trail: None, statement: str, table: str, column: str, role: str
) -> None:
    AuditReview.objects.create(month=NOW.date().replace(day=1), by=staff("auditor"))
    before = sql(f"SELECT count(*) FROM {table}")
    assert before
    sql("SET CONSTRAINTS ALL IMMEDIATE")
    acting = "audit_ordinary" if role == "ordinary" else "NONE"
    refused(f"SET LOCAL ROLE {acting}", statement.format(table, column, column))
    assert sql(f"SELECT count(*) FROM {table}") == before
    assert verification.check_chain().trouble == []


def test_to_empty_what_the_trail_refers_to_is_refused_too(trail: None) -> None:
    sql("SET CONSTRAINTS ALL IMMEDIATE")
    refused("TRUNCATE accounts_user CASCADE")


def test_to_say_how_many_years_one_keeps_is_no_way_around(trail: None) -> None:
    for years in ("1", "0", "-5", ""):
        refused(keeping(years), f"DELETE FROM {ENTRIES}")
