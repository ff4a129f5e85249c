"""Triggers that keep what is only added: notes, contacts, and the audit trail with its seals.

Entries that are old and sealed can be deleted by a transaction that says how many years it keeps;
`audit/retention.py` is the one that does. Who owns the tables can drop triggers: what that does to
entries, their seals show.
"""

from django.db import migrations

ADDED_ONLY = ("backoffice_note", "backoffice_contact", "backoffice_assignmentchange")


def only_added() -> list[migrations.RunSQL]:
    function = migrations.RunSQL(
        """
        CREATE FUNCTION backoffice_only_added() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'rows of % are added, never changed', TG_TABLE_NAME
                USING ERRCODE = 'restrict_violation';
        END $$
        """,
        "DROP FUNCTION backoffice_only_added()",
    )
    triggers = [
        migrations.RunSQL(
            f"CREATE TRIGGER only_added BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION backoffice_only_added()",
            f"DROP TRIGGER only_added ON {table}",
        )
        for table in ADDED_ONLY
    ]
    return [function, *triggers]


KEPT = """
CREATE FUNCTION backoffice_audit_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  years int := nullif(current_setting('backoffice.audit_keep_years', true), '')::int;
BEGIN
  IF TG_TABLE_NAME = 'backoffice_auditentry' AND TG_OP = 'DELETE' AND years >= 1 THEN
    -- Of the seals that end behind it, the first is the one that covers it.
    IF OLD.at < now() - make_interval(years => years) AND (
      SELECT from_id <= OLD.id AND at < now() - make_interval(years => years)
      FROM backoffice_auditseal WHERE NOT removal AND to_id >= OLD.id ORDER BY to_id LIMIT 1
    ) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'rows of % are added, never changed', TG_TABLE_NAME
    USING ERRCODE = 'restrict_violation';
END $$
"""


def kept() -> list[migrations.RunSQL]:
    made = [migrations.RunSQL(KEPT, "DROP FUNCTION backoffice_audit_kept()")]
    for table in ("backoffice_auditentry", "backoffice_auditseal", "backoffice_auditreview"):
        for name, when in (
            ("kept", "UPDATE OR DELETE ON {} FOR EACH ROW"),
            ("kept_whole", "TRUNCATE ON {} FOR EACH STATEMENT"),
        ):
            made.append(
                migrations.RunSQL(
                    f"CREATE TRIGGER {name} BEFORE {when.format(table)}"
                    " EXECUTE FUNCTION backoffice_audit_kept()",
                    f"DROP TRIGGER {name} ON {table}",
                )
            )
    return made


# Workers may tidy the indexes of audit entries, which they do not own, and nothing else of them.
TIDY = """
CREATE FUNCTION backoffice_tidy_entries() RETURNS bigint LANGUAGE sql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(sum(gin_clean_pending_list(i.indexrelid)), 0)::bigint FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
WHERE i.indrelid = 'public.backoffice_auditentry'::regclass AND a.amname = 'gin'
$$;
REVOKE EXECUTE ON FUNCTION backoffice_tidy_entries() FROM PUBLIC;
"""


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0001_initial")]

    operations = [
        *only_added(),
        *kept(),
        migrations.RunSQL(TIDY, "DROP FUNCTION backoffice_tidy_entries()"),
    ]
