"""Storage settings of tables, and statistics for the planner."""

from django.db import migrations

from backoffice.core.migration_storage import keep_records_out_of_line


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]

    operations = [
        keep_records_out_of_line("orders_order", "orders_appointment", "orders_result"),
        # A sync adds and removes thousands of rows, and few of them exist at the same time.
        migrations.RunSQL(
            "ALTER TABLE today_ordercount SET"
            " (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0)",
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(
            "CREATE STATISTICS order_kinds (mcv, dependencies)"
            " ON bucket, low_level_status, method, interpretation FROM orders_order;"
            " ALTER STATISTICS order_kinds SET STATISTICS 200",
            "DROP STATISTICS order_kinds",
        ),
    ]
