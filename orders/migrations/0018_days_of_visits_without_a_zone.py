"""Visits without a usable time zone have the day of their state's zone, no longer that of UTC."""

from __future__ import annotations

from typing import Final

from django.db import migrations, models

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
UPDATE orders_appointment AS visit SET draw_day = (visit.start_at AT TIME ZONE states.zone)::date
FROM (VALUES {VALUES}) AS states(state, zone)
WHERE upper(btrim(visit.state)) = states.state AND visit.start_at IS NOT NULL
 AND (visit.iana_timezone IS NULL
  OR visit.iana_timezone NOT IN (SELECT name FROM pg_timezone_names))
 AND visit.draw_day IS DISTINCT FROM (visit.start_at AT TIME ZONE states.zone)::date
"""  # noqa: S608 - our own constants


class Migration(migrations.Migration):
    dependencies = [("orders", "0017_identity_ranks")]

    operations = [
        migrations.RunSQL(RECOMPUTE, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="appointment",
            name="draw_day",
            field=models.DateField(
                help_text="Calendar date of the start in the zone that it is shown in", null=True
            ),
        ),
    ]
