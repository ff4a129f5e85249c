"""Do not read a patient's other orders if an order repeats the stored details of the patient."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.db import migrations

SQL: Final = Path(__file__).resolve().parent.parent / "sync" / "sql"


class Migration(migrations.Migration):
    dependencies = [("orders", "0025_collection_time_of_print_jobs")]

    operations = [
        migrations.RunSQL((SQL / "identify_patients.sql").read_text(), migrations.RunSQL.noop)
    ]
