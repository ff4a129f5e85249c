"""Database roles that may do what their processes do, and no more.

    the owner       migrations, backups and restores: it owns the tables, and the product does not
                    run as it
    bo_web          pages, the API and deliveries: rows, no tables; the audit trail and what was
                    signed may be added to and read, never changed
    bo_worker       the same for workers and beat; it also makes and drops the months of device
                    data, and so owns those
    bo_audit        reads the audit trail, and nothing else

The roles are made once, with passwords that an administrator sets. What they may do is granted
anew after every `manage.py migrate`.

The owner needs no superuser rights: to make the roles CREATEROLE, and afterwards only what it owns
and its membership in bo_worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from django.core.management.base import CommandError
from django.db import ProgrammingError, connection, transaction
from psycopg import errors

from patients.wearables.partitions import PARENT

PREFIX: Final = "bo"
APPEND_ONLY: Final = re.compile(
    r"backoffice_audit(entry|seal|review)|backoffice_commandattempt"
    r"|orders_(resultversion|signature|criticalacknowledgement|criticalcall)"
)
AUDIT: Final = re.compile(r"backoffice_audit\w*")
GROWS_OLD: Final = "backoffice_auditentry"
"""What workers may delete from it has grown old: triggers refuse the rest."""
READ_ONLY: Final = frozenset({"django_migrations"})
_LIMITS: Final = {
    "web": {"statement_timeout": "30s", "lock_timeout": "5s"},
    "worker": {"statement_timeout": "10min", "lock_timeout": "30s"},
    "audit": {"statement_timeout": "60s", "default_transaction_read_only": "on"},
}
_TABLES: Final = """
SELECT relname, coalesce(inhparent::regclass::text, ''), pg_get_userbyid(relowner)
FROM pg_class LEFT JOIN pg_inherits ON inhrelid = pg_class.oid
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname
"""


def statements(prefix: str = PREFIX) -> Iterator[str]:
    """The SQL that makes the roles where they are missing and grants them their rights, for the
    tables of this database. To be run by their owner, who may make roles."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", prefix):
        raise CommandError("A prefix has small letters, digits and _ only.")
    for kind in _LIMITS:
        yield (
            f"DO $$ BEGIN CREATE ROLE {prefix}_{kind} LOGIN;"
            " EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        )
    for kind, limits in _LIMITS.items():
        for name, value in limits.items():
            yield f"ALTER ROLE {prefix}_{kind} SET {name} = '{value}';"
    # Before anything is given to it: only a member of a role may, and so migrations and backups
    # reach what the workers own.
    yield f"GRANT {prefix}_worker TO {_owner()};"
    yield from grants(prefix)


def grants(prefix: str = PREFIX) -> Iterator[str]:
    """What the owner grants to roles that are there."""
    web, worker, audit = (f"{prefix}_{kind}" for kind in _LIMITS)
    yield "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"
    yield f"GRANT USAGE ON SCHEMA public TO {web}, {worker}, {audit};"
    # Who is to own a table must be allowed to make tables.
    yield f"GRANT CREATE ON SCHEMA public TO {worker};"
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {web}, {worker}, {audit};"
    for table, parent, owner in _tables():
        if PARENT in (table, parent):
            if owner != worker:  # it would lock the table
                yield f'ALTER TABLE "{table}" OWNER TO {worker};'
            yield f'GRANT SELECT, INSERT, UPDATE, DELETE ON "{table}" TO {web}, {worker};'
            continue
        rights = "SELECT, INSERT, UPDATE, DELETE"
        if table in READ_ONLY:
            rights = "SELECT"
        elif APPEND_ONLY.fullmatch(table):
            rights = "SELECT, INSERT"
        yield f'GRANT {rights} ON "{table}" TO {web}, {worker};'
        if table == GROWS_OLD:
            yield f'GRANT DELETE ON "{table}" TO {worker};'
        if AUDIT.fullmatch(table):
            yield f'GRANT SELECT ON "{table}" TO {audit};'
    yield f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {web}, {worker};"
    yield f"GRANT EXECUTE ON FUNCTION backoffice_tidy_entries() TO {worker};"


def refresh() -> bool:
    """Grant anew what new tables need, where the roles are used; False where they are not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_roles WHERE rolname = %s", [f"{PREFIX}_web"])
        if not cursor.fetchone()[0]:
            return False
    apply(grants())
    return True


def apply(lines: Iterator[str]) -> None:
    """All at once: nobody who works meanwhile is without rights. Raises CommandError with what the
    owner lacks."""
    line = ""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            for line in list(lines):
                cursor.execute(line)
    except ProgrammingError as error:
        if not isinstance(error.__cause__, errors.InsufficientPrivilege):
            raise
        raise CommandError(
            f"PostgreSQL refused {line!r}: {error.__cause__.diag.message_primary}. Run"
            " manage.py databaseroles --apply as the owner of the tables, with CREATEROLE; where"
            f" somebody else made the roles, have them grant these to {_owner()} WITH ADMIN OPTION."
        ) from error


def _owner() -> str:
    """Whom this process logs in as, in SQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_user)")
        return str(cursor.fetchone()[0])


def _tables() -> list[tuple[str, str, str]]:
    """Each with the table it is a part of, and its owner."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        return [(name, parent.strip('"'), owner) for name, parent, owner in cursor.fetchall()]
