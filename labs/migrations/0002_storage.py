from django.db import migrations

from backoffice.core.migration_storage import keep_records_out_of_line


class Migration(migrations.Migration):
    dependencies = [("labs", "0001_initial")]

    operations = [keep_records_out_of_line("labs_marker", "labs_labtest", "labs_reportjob")]
