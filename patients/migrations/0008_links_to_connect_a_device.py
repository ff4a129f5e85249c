"""Links by which patients connect devices. They are stored until they are shown."""

from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields


class Migration(migrations.Migration):

    dependencies = [
        ('patients', '0007_references_in_any_spelling'),
    ]

    operations = [
        migrations.CreateModel(
            name='ConnectLink',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('url', backoffice.core.encryption.encrypted_fields.SealedText(default='')),
                ('expires_at', models.DateTimeField()),
                ('shown_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['expires_at'], name='connect_link_old')],
            },
        ),
    ]
