"""Search patients by our reference in any spelling."""

from django.db import migrations, models

from backoffice.core.identifiers import IdentifierKey
from backoffice.core.migration_indexes import ReplaceIndex


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('patients', '0006_names_written_together'),
    ]

    operations = [
        ReplaceIndex(
            'patient',
            models.Index(IdentifierKey('client_user_id'), name='patient_client_id'),
        ),
    ]
