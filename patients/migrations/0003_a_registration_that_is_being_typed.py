import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields


class Migration(migrations.Migration):

    dependencies = [
        ('backoffice', '0002_kept'),
        ('patients', '0002_storage'),
    ]

    operations = [
        migrations.CreateModel(
            name='RegistrationDraft',
            fields=[
                ('saved_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('typed', backoffice.core.encryption.encrypted_fields.SealedJSON(default=dict)),
            ],
            options={
                'indexes': [models.Index(fields=['saved_at'], name='registration_draft_old')],
            },
        ),
    ]
