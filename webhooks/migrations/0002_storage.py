from django.db import migrations

from backoffice.core.migration_storage import keep_records_out_of_line


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0001_initial")]

    operations = [
        keep_records_out_of_line("webhooks_event"),
        # A queue that empties as fast as it fills. Vacuum depends on the number of changed rows.
        migrations.RunSQL(
            "ALTER TABLE webhooks_event SET (autovacuum_vacuum_scale_factor = 0.01,"
            " autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_limit = 2000,"
            " autovacuum_analyze_scale_factor = 0.02, fillfactor = 85)",
            "ALTER TABLE webhooks_event RESET (autovacuum_vacuum_scale_factor,"
            " autovacuum_vacuum_threshold, autovacuum_vacuum_cost_limit,"
            " autovacuum_analyze_scale_factor, fillfactor)",
        ),
    ]
