"""Fill the columns with the identity of a patient, a few thousand at a time, and index them.

Nothing blocks other work: each step is committed by itself, and indexes are built concurrently.
After an interruption, start the migration again.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib.postgres.indexes import OpClass
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Lower

AT_ONCE: Final = 2_000
STEP: Final = """
SELECT max(user_id::text)::uuid, array_agg(user_id) FROM (
  SELECT user_id FROM patients_demographics WHERE user_id > %s ORDER BY user_id LIMIT %s
) AS step
"""


def fill(apps: Any, schema_editor: Any) -> None:
    last, users = "00000000-0000-0000-0000-000000000000", []
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(STEP, [last, AT_ONCE])
            last, users = cursor.fetchone()
            if last is None:
                return
            cursor.execute("SELECT patients_identify(%s)", [users])


def _drop(name: str) -> migrations.RunSQL:
    """Drop an index that an interrupted run of this migration has already built."""
    return migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", migrations.RunSQL.noop)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("patients", "0009_identity")]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        _drop("patient_by_name"),
        AddIndexConcurrently(
            "patient", models.Index(fields=["name_key", "id"], name="patient_by_name")
        ),
        _drop("patient_by_birth_date"),
        AddIndexConcurrently(
            "patient", models.Index(fields=["dob", "id"], name="patient_by_birth_date")
        ),
        _drop("patient_phone"),
        AddIndexConcurrently(
            "patient",
            models.Index(
                fields=["phone_digits"], name="patient_phone", opclasses=["text_pattern_ops"]
            ),
        ),
        _drop("patient_email"),
        AddIndexConcurrently(
            "patient",
            models.Index(OpClass(Lower("email"), name="text_pattern_ops"), name="patient_email"),
        ),
        RemoveIndexConcurrently("demographics", "demographics_by_name"),
        RemoveIndexConcurrently("demographics", "demographics_phone"),
        RemoveIndexConcurrently("demographics", "demographics_email"),
        RemoveIndexConcurrently("demographics", "demographics_dob"),
    ]
