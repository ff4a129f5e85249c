"""Take the identity of a patient from orders where demographics lack it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.db import migrations, models

SQL: Final = Path(__file__).resolve().parent.parent / "sync" / "sql"
TRIGGERS: Final = """
CREATE TRIGGER patients_identified AFTER INSERT ON orders_order
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_identify_by_new_orders();
CREATE TRIGGER patients_identified_again AFTER UPDATE ON orders_order
  REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_identify_by_changed_orders();
CREATE TRIGGER orders_identify_added AFTER INSERT ON patients_patient
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_identify_added_patients();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("orders", "0019_results_by_release"),
        ("patients", "0010_identity_of_patients_on_record"),
    ]

    operations = [
        migrations.AddField(
            "order",
            "patient_phone",
            models.TextField(
                default="",
                db_default="",
                help_text="The patient's, or else of the address in their name",
            ),
        ),
        migrations.AddField("order", "patient_email", models.TextField(default="", db_default="")),
        migrations.RunSQL((SQL / "identify_patients.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL(TRIGGERS, migrations.RunSQL.noop),
    ]
