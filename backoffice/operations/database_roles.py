"""Database roles with only the rights that their processes need.

    the owner       migrations, backups and restores. It owns the tables. The product does not run
                    with this role.
    bo_web          pages, the API and webhook deliveries. It may change rows but not tables. Of
                    the audit trail and of signed records it may only add and read rows.
    bo_worker       the same for workers and beat. It also owns the monthly partitions of device
                    data, because it creates and drops them.
    bo_audit        reads the audit trail, and nothing else

The roles are created once, with passwords that an administrator sets. Their rights are granted
again after every `manage.py migrate`.

The owner does not have to be a superuser. It needs CREATEROLE to create the roles. After that it
needs only its own tables and its membership in bo_worker.
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
    r"audit_audit(entry|seal|review)|outbox_commandattempt"
    r"|orders_(resultversion|signature|criticalacknowledgement|criticalcall)"
)
AUDIT: Final = re.compile(r"audit_audit\w*")
GROWS_OLD: Final = "audit_auditentry"
"""Workers may delete rows of this table; triggers refuse to delete any row that is not expired."""
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
    """Yield the SQL that creates missing roles and grants rights on the tables of this database.

    The owner of the tables must run it, and needs the right to create roles.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", prefix):
        raise CommandError("A prefix can have only lowercase letters, digits and _.")
    for kind in _LIMITS:
        yield (
            f"DO $$ BEGIN CREATE ROLE {prefix}_{kind} LOGIN;"
            " EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        )
    for kind, limits in _LIMITS.items():
        for name, value in limits.items():
            yield f"ALTER ROLE {prefix}_{kind} SET {name} = '{value}';"
    # This must come before the grants: only a member of a role may make it the owner of a table.
    # With the membership, migrations and backups can also use the tables of the workers.
    yield f"GRANT {prefix}_worker TO {_owner()};"
    yield from grants(prefix)


def grants(prefix: str = PREFIX) -> Iterator[str]:
    """Yield the SQL with which the owner grants rights to existing roles."""
    web, worker, audit = (f"{prefix}_{kind}" for kind in _LIMITS)
    yield "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"
    yield f"GRANT USAGE ON SCHEMA public TO {web}, {worker}, {audit};"
    # PostgreSQL requires this right of a role that becomes the owner of a table.
    yield f"GRANT CREATE ON SCHEMA public TO {worker};"
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {web}, {worker}, {audit};"
    for table, parent, owner in _tables():
        if PARENT in (table, parent):
            if owner != worker:  # The statement locks the table, so run it only if needed.
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
    yield f"GRANT EXECUTE ON FUNCTION audit_clean_entry_indexes() TO {worker};"


def refresh() -> bool:
    """Grant the rights again, for new tables. Return False if the roles do not exist."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_roles WHERE rolname = %s", [f"{PREFIX}_web"])
        if not cursor.fetchone()[0]:
            return False
    apply(grants())
    return True


def apply(lines: Iterator[str]) -> None:
    """Run the statements in one transaction, so that running processes keep their rights.

    Raises CommandError that names the right that the owner lacks.
    """
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
            " manage.py databaseroles --apply as the owner of the tables, with CREATEROLE. If"
            f" someone else created the roles, have them granted to {_owner()} WITH ADMIN OPTION."
        ) from error


def _owner() -> str:
    """Return the current database user, quoted for SQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_user)")
        return str(cursor.fetchone()[0])


def _tables() -> list[tuple[str, str, str]]:
    """Return name, parent table (empty if it is no partition) and owner of each table."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        return [(name, parent.strip('"'), owner) for name, parent, owner in cursor.fetchall()]
