"""A group of exceptions for statuses that people decide on; their moving orders is no news."""

from django.db import migrations, models

STATUSES = (
    "lost",
    "sample_error",
    "lab_processing_blocked",
    "problem_in_transit_customer",
    "problem_in_transit_lab",
    "failure_to_deliver_to_customer",
    "failure_to_deliver_to_lab",
    "redraw_available",
    "appointment_cancelled",
)

# As migration 0008 made it, but where `orders.deciding` moves orders, only the counts follow.
CHANGED = """
CREATE OR REPLACE FUNCTION today_orders_changed() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, sum(change) FROM (
    SELECT bucket, low_level_status, method, 1 AS change FROM fresh
    UNION ALL
    SELECT bucket, low_level_status, method, -1 FROM stale
  ) AS moved
  GROUP BY 1, 2, 3 HAVING sum(change) <> 0;
  {unless}INSERT INTO today_happening (transaction, kind, order_id, patient_id, before, after,
    bucket_before, bucket_after)
  SELECT pg_current_xact_id()::text::bigint, kind, fresh.id, fresh.user_id,
    stale.low_level_status, fresh.low_level_status, stale.bucket, fresh.bucket
  FROM fresh JOIN stale USING (id)
  CROSS JOIN LATERAL unnest(
    CASE WHEN (fresh.bucket, fresh.low_level_status) <> (stale.bucket, stale.low_level_status)
      THEN ARRAY['order'] ELSE '{{}}' END
    || CASE WHEN fresh.interpretation = 'critical'
        AND stale.interpretation IS DISTINCT FROM 'critical'
      THEN ARRAY['critical'] ELSE '{{}}' END
  ) AS kind;
  RETURN NULL;
END $$;
"""
UNLESS = "IF current_setting('backoffice.no_news', true) = 'on' THEN RETURN NULL; END IF;\n  "


class Migration(migrations.Migration):
    dependencies = [("orders", "0015_sealed_drafts")]

    operations = [
        migrations.AddIndex(
            model_name="order",
            index=models.Index(
                condition=models.Q(bucket="needs-action") & ~models.Q(low_level_status__in=STATUSES),
                fields=["quiet_at", "id"],
                include=("last_event_id", "missing_since"),
                name="exception_other",
            ),
        ),
        migrations.RunSQL(CHANGED.format(unless=UNLESS), CHANGED.format(unless="")),
    ]
