import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('sync', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='UnreadRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=40)),
                ('key', models.TextField(help_text="The record's id where it could be made out, else its hash")),
                ('path', models.TextField(blank=True, default='')),
                ('reason', models.TextField(blank=True, default='')),
                ('record', backoffice.core.encryption.encrypted_fields.EncryptedTextField(by='key')),
                ('is_stored', models.BooleanField(db_default=False, default=False, help_text='Only the parts at `path` were left out, the rest was stored')),
                ('first_seen', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('last_seen', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('resource', 'key'), name='unread_record_once')],
            },
        ),
        migrations.CreateModel(
            name='Drift',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=40)),
                ('key', models.TextField()),
                ('kind', models.CharField(choices=[('missing_local', 'Was missing here'), ('missing_remote', 'No longer at the service'), ('stale', 'Was out of date here'), ('schema', 'Could not be read'), ('history_conflict', 'History was rewritten'), ('moved', 'Went to another patient'), ('regressed', 'Went back in its life')], max_length=20)),
                ('detail', models.TextField(blank=True, default='')),
                ('found_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='drifts', to='sync.syncrun')),
            ],
            options={
                'indexes': [models.Index(fields=['-found_at'], name='drift_latest')],
            },
        ),
    ]
