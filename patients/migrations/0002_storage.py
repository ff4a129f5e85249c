from django.db import migrations

from backoffice.core.migration_storage import keep_records_out_of_line


class Migration(migrations.Migration):
    dependencies = [("patients", "0001_initial")]

    operations = [
        keep_records_out_of_line(
            "patients_patient", "patients_demographics", "patients_insurance"
        )
    ]
