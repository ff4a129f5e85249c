"""Compute the day of visits without a usable time zone in the zone of their state, not in UTC."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.db import migrations, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

ZONES: Final = {
    "America/New_York": "CT DC DE FL GA IN KY MA MD ME MI NC NH NJ NY OH PA RI SC VA VT WV",
    "America/Chicago": "AL AR IA IL KS LA MN MO MS ND NE OK SD TN TX WI",
    "America/Denver": "CO ID MT NM UT WY",
    "America/Los_Angeles": "CA NV OR WA",
    "America/Phoenix": "AZ",
    "America/Anchorage": "AK",
    "Pacific/Honolulu": "HI",
    "America/Puerto_Rico": "PR",
    "America/St_Thomas": "VI",
    "Pacific/Guam": "GU MP",
    "Pacific/Pago_Pago": "AS",
}
VALUES: Final = ", ".join(
    f"('{state}', '{zone}')" for zone, states in ZONES.items() for state in states.split()
)
RECOMPUTE: Final = f"""
WITH batch AS (
 SELECT id FROM orders_appointment WHERE %s::uuid IS NULL OR id > %s ORDER BY id LIMIT %s
), moved AS (
 UPDATE orders_appointment AS visit SET draw_day = (visit.start_at AT TIME ZONE states.zone)::date
 FROM batch, (VALUES {VALUES}) AS states(state, zone)
 WHERE visit.id = batch.id AND upper(btrim(visit.state)) = states.state
  AND visit.start_at IS NOT NULL
  AND (visit.iana_timezone IS NULL OR visit.iana_timezone <> ALL(%s))
  AND visit.draw_day IS DISTINCT FROM (visit.start_at AT TIME ZONE states.zone)::date
)
SELECT id FROM batch ORDER BY id DESC LIMIT 1
"""  # noqa: S608 - our own constants
BATCH: Final = 2_000


def recompute(connection: BaseDatabaseWrapper, batch: int = BATCH) -> int:
    """Process all visits in the order of their keys; return the number of batches.

    Each batch is one transaction. After an interruption, start again: correct rows are not written.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_timezone_names")
        zones = [name for (name,) in cursor.fetchall()]
    last: UUID | None = None
    batches = 0
    while True:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute(RECOMPUTE, [last, last, batch, zones])
            row = cursor.fetchone()
        if row is None:
            return batches
        last, batches = row[0], batches + 1


def forwards(apps: Any, schema_editor: Any) -> None:
    recompute(schema_editor.connection)


class Migration(migrations.Migration):
    # One transaction over all visits would block syncs.
    atomic = False
    dependencies = [("orders", "0017_identity_ranks")]

    operations = [
        migrations.RunPython(forwards, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="appointment",
            name="draw_day",
            field=models.DateField(
                help_text="Calendar date of the start in the zone that it is shown in", null=True
            ),
        ),
    ]
