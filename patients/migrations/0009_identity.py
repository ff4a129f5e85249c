"""Columns with the identity of a patient, so that one table is searched and sorted.

From here on, triggers set these columns. The next migration fills them for existing rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import Value

SQL: Final = Path(__file__).resolve().parent.parent / "sql"
TRIGGERS: Final = """
CREATE TRIGGER identity_added AFTER INSERT ON patients_demographics
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_identify_by_demographics();
CREATE TRIGGER identity_changed AFTER UPDATE ON patients_demographics
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_identify_by_demographics();
CREATE TRIGGER identity_of_added AFTER INSERT ON patients_patient
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_identify_added();

DROP TRIGGER words_gone ON patients_demographics;
DROP TRIGGER words_changed ON patients_demographics;
DROP TRIGGER words_added ON patients_demographics;
CREATE TRIGGER words_added AFTER INSERT ON patients_patient
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patient_name_words_added();
CREATE TRIGGER words_changed AFTER UPDATE ON patients_patient
  REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patient_name_words_changed();
CREATE TRIGGER words_gone AFTER DELETE ON patients_patient
  REFERENCING OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION patient_name_words_gone();
"""


def _text(help_text: str = "") -> models.TextField[Any, Any]:
    return models.TextField(default="", db_default="", help_text=help_text)


COLUMNS: Final[dict[str, models.Field[Any, Any]]] = {
    "first_name": _text(),
    "last_name": _text(),
    "name_key": _text("First and last name, folded, for search and sort"),
    "email": _text(),
    "phone_number": _text(),
    "phone_digits": _text("Digits only, reversed: prefix search on any tail"),
    "gender": _text(),
    "dob": models.DateField(null=True),
    "city": _text(),
    "state": _text(),
    "zip": _text(),
    "fields_from_order": ArrayField(
        models.TextField(),
        default=list,
        db_default=Value([], ArrayField(models.TextField())),
        help_text="Those of name, dob, gender, phone, email that demographics lack",
    ),
    "source_order_id": models.UUIDField(null=True, help_text="The order that gave them"),
    "source_order_created_at": models.DateTimeField(null=True),
}


class Migration(migrations.Migration):
    dependencies = [("patients", "0008_links_to_connect_a_device")]

    operations = [
        *(migrations.AddField("patient", name, field) for name, field in COLUMNS.items()),
        migrations.RunSQL((SQL / "name_words.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((SQL / "identity.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL(TRIGGERS, migrations.RunSQL.noop),
    ]
