"""Counts of orders and happenings, kept by triggers: in the transaction of the change, whoever
makes it, once per statement."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import migrations, models

# Plans are kept, and the first call may bring one row: a nested loop would be kept for thousands.
#
# An order that is first heard of is news only where something happened to it lately: the first
# sync brings years of orders.
ORDERS = """
CREATE FUNCTION today_orders_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, count(*) FROM fresh GROUP BY 1, 2, 3;
  INSERT INTO today_happening
    (transaction, kind, order_id, patient_id, after, bucket_after)
  SELECT pg_current_xact_id()::text::bigint, kind, id, user_id, low_level_status, bucket
  FROM fresh
  CROSS JOIN LATERAL unnest(
    CASE WHEN interpretation = 'critical' THEN ARRAY['order', 'critical'] ELSE ARRAY['order'] END
  ) AS kind
  WHERE last_event_at > now() - interval '3 days';
  RETURN NULL;
END $$;

CREATE FUNCTION today_orders_changed() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, sum(change) FROM (
    SELECT bucket, low_level_status, method, 1 AS change FROM fresh
    UNION ALL
    SELECT bucket, low_level_status, method, -1 FROM stale
  ) AS moved
  GROUP BY 1, 2, 3 HAVING sum(change) <> 0;
  INSERT INTO today_happening (transaction, kind, order_id, patient_id, before, after,
    bucket_before, bucket_after)
  SELECT pg_current_xact_id()::text::bigint, kind, fresh.id, fresh.user_id,
    stale.low_level_status, fresh.low_level_status, stale.bucket, fresh.bucket
  FROM fresh JOIN stale USING (id)
  CROSS JOIN LATERAL unnest(
    CASE WHEN (fresh.bucket, fresh.low_level_status) <> (stale.bucket, stale.low_level_status)
      THEN ARRAY['order'] ELSE '{}' END
    || CASE WHEN fresh.interpretation = 'critical'
        AND stale.interpretation IS DISTINCT FROM 'critical'
      THEN ARRAY['critical'] ELSE '{}' END
  ) AS kind;
  RETURN NULL;
END $$;

CREATE FUNCTION today_orders_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, -count(*) FROM stale GROUP BY 1, 2, 3;
  RETURN NULL;
END $$;

CREATE FUNCTION today_orders_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, -sum(change) FROM today_ordercount
  GROUP BY 1, 2, 3 HAVING sum(change) <> 0;
  RETURN NULL;
END $$;

CREATE TRIGGER today_added AFTER INSERT ON orders_order REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_added();
CREATE TRIGGER today_changed AFTER UPDATE ON orders_order
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_changed();
CREATE TRIGGER today_removed AFTER DELETE ON orders_order REFERENCING OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_removed();
CREATE TRIGGER today_emptied AFTER TRUNCATE ON orders_order
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_emptied();

INSERT INTO today_ordercount (bucket, low_level_status, method, change)
SELECT bucket, low_level_status, method, count(*) FROM orders_order GROUP BY 1, 2, 3;
"""
ORDERS_BACK = """
DROP TRIGGER today_added ON orders_order;
DROP TRIGGER today_changed ON orders_order;
DROP TRIGGER today_removed ON orders_order;
DROP TRIGGER today_emptied ON orders_order;
DROP FUNCTION today_orders_added();
DROP FUNCTION today_orders_changed();
DROP FUNCTION today_orders_removed();
DROP FUNCTION today_orders_emptied();
"""

# A visit that replaces another comes as a row of its own, while the other still counts.
OTHERS = """
CREATE FUNCTION today_visits_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_happening
    (transaction, kind, order_id, patient_id, before, after, start_before, start_after)
  SELECT pg_current_xact_id()::text::bigint, 'visit', fresh.order_id, fresh.user_id,
    coalesce(earlier.status, ''), fresh.status, earlier.start_at, fresh.start_at
  FROM fresh LEFT JOIN LATERAL (
    SELECT status, start_at FROM orders_appointment AS other
    WHERE other.order_id = fresh.order_id AND other.id <> fresh.id
      AND other.superseded_at IS NULL
    ORDER BY other.as_of DESC LIMIT 1
  ) AS earlier ON true
  WHERE fresh.start_at > now() - interval '1 day'
    OR (fresh.start_at IS NULL AND fresh.status NOT IN ('completed', 'cancelled'));
  RETURN NULL;
END $$;

CREATE FUNCTION today_visits_changed() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO today_happening
    (transaction, kind, order_id, patient_id, before, after, start_before, start_after)
  SELECT pg_current_xact_id()::text::bigint, 'visit', fresh.order_id, fresh.user_id,
    stale.status, fresh.status, stale.start_at, fresh.start_at
  FROM fresh JOIN stale USING (id)
  WHERE (fresh.status, fresh.start_at) IS DISTINCT FROM (stale.status, stale.start_at);
  RETURN NULL;
END $$;

CREATE FUNCTION today_results_changed() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO today_happening (transaction, kind, order_id, patient_id, before, after)
  SELECT pg_current_xact_id()::text::bigint, 'result', fresh.order_id, ordered.user_id,
    stale.status, fresh.status
  FROM fresh JOIN stale USING (order_id) LEFT JOIN orders_order AS ordered
    ON ordered.id = fresh.order_id
  WHERE fresh.status <> stale.status;
  RETURN NULL;
END $$;

CREATE FUNCTION today_critical_heard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_happening (transaction, kind, order_id, patient_id, after)
  SELECT pg_current_xact_id()::text::bigint, 'critical', order_id, user_id, status FROM fresh;
  RETURN NULL;
END $$;

CREATE TRIGGER today_added AFTER INSERT ON orders_appointment REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION today_visits_added();
CREATE TRIGGER today_changed AFTER UPDATE ON orders_appointment
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_visits_changed();
CREATE TRIGGER today_changed AFTER UPDATE ON orders_result
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_results_changed();
CREATE TRIGGER today_added AFTER INSERT ON orders_criticalresult REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION today_critical_heard();
"""
OTHERS_BACK = """
DROP TRIGGER today_added ON orders_appointment;
DROP TRIGGER today_changed ON orders_appointment;
DROP TRIGGER today_changed ON orders_result;
DROP TRIGGER today_added ON orders_criticalresult;
DROP FUNCTION today_visits_added();
DROP FUNCTION today_visits_changed();
DROP FUNCTION today_results_changed();
DROP FUNCTION today_critical_heard();
"""

NOW = django.db.models.functions.datetime.Now


class Migration(migrations.Migration):
    dependencies = [
        ("orders", "0007_reviews"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Look",
            fields=[
                ("user", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name="+", serialize=False, to=settings.AUTH_USER_MODEL)),
                ("snapshot", models.TextField(help_text="A pg_snapshot")),
                ("at", models.DateTimeField(db_default=NOW())),
            ],
            options={"db_table": "today_look"},
        ),
        migrations.CreateModel(
            name="OrderCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("bucket", models.TextField()),
                ("low_level_status", models.TextField()),
                ("method", models.TextField()),
                ("change", models.BigIntegerField()),
            ],
            options={"db_table": "today_ordercount"},
        ),
        migrations.CreateModel(
            name="Happening",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_default=NOW(), help_text="When we learnt of it")),
                ("transaction", models.BigIntegerField()),
                ("kind", models.CharField(max_length=8)),
                ("order_id", models.UUIDField(null=True)),
                ("patient_id", models.UUIDField(null=True)),
                ("before", models.TextField(db_default="", default="", help_text="Status; empty: first heard of")),
                ("after", models.TextField(db_default="", default="")),
                ("bucket_before", models.TextField(db_default="", default="")),
                ("bucket_after", models.TextField(db_default="", default="")),
                ("start_before", models.DateTimeField(help_text="Of a visit", null=True)),
                ("start_after", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "today_happening",
                "indexes": [
                    models.Index(fields=["transaction"], name="happening_since"),
                    BrinIndex(fields=["at"], autosummarize=True, name="happening_by_time"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Seen",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("about", models.UUIDField()),
                ("snapshot", models.TextField()),
                ("at", models.DateTimeField(db_default=NOW())),
                ("user", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "db_table": "today_seen",
                "constraints": [models.UniqueConstraint(fields=("user", "about"), name="seen_once")],
            },
        ),
        # Rows come and go in thousands while a sync runs, and few are ever alive.
        migrations.RunSQL(
            "ALTER TABLE today_ordercount SET"
            " (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0)",
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(ORDERS, ORDERS_BACK),
        migrations.RunSQL(OTHERS, OTHERS_BACK),
    ]
