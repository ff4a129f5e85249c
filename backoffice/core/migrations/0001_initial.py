import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('queue', models.CharField(max_length=20, primary_key=True, serialize=False)),
                ('worker', models.CharField(max_length=100)),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('environment', models.CharField(help_text='Of the service, such as sandbox us', max_length=40)),
                ('secret', backoffice.core.encryption.encrypted_fields.EncryptedTextField()),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('audit_first_entry', models.BigIntegerField(help_text='Id of the entry with which the audit trail begins', null=True)),
                ('team_id', models.UUIDField(help_text='The team of the service whose records are here, from the first sync on', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Backup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('seconds', models.FloatField()),
                ('bytes', models.BigIntegerField()),
            ],
            options={
                'indexes': [models.Index(fields=['-at'], name='backup_latest')],
            },
        ),
        migrations.CreateModel(
            name='Change',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('xact', models.BigIntegerField()),
                ('topic', models.CharField(help_text='Name of the table', max_length=40)),
                ('rows', models.PositiveIntegerField()),
                ('subjects', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), null=True, size=None)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(fields=['xact'], name='change_since')],
            },
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('restored_to', models.DateTimeField()),
                ('released_at', models.DateTimeField(null=True)),
                ('released_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.Value(1), condition=models.Q(('released_at', None)), name='one_hold')],
            },
        ),
        migrations.CreateModel(
            name='UnknownValue',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('vocabulary', models.CharField(max_length=60)),
                ('value', models.TextField()),
                ('bucket', models.CharField(blank=True, default='', max_length=20)),
                ('label', models.CharField(blank=True, db_default='', default='', max_length=80)),
                ('decision', models.BigIntegerField(db_default=0, default=0)),
                ('decided_at', models.DateTimeField(null=True)),
                ('spread_at', models.DateTimeField(null=True)),
                ('moved', models.BigIntegerField(db_default=0, default=0)),
                ('sightings', models.BigIntegerField(default=0)),
                ('first_seen', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('last_seen', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('sample_key', models.TextField(blank=True, default='')),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('decision__gt', 0)), fields=['decision'], name='unknown_value_decided'), models.Index(fields=['-last_seen', '-id'], name='unknown_value_last_seen')],
                'constraints': [models.UniqueConstraint(fields=('vocabulary', 'value'), name='unknown_value_once')],
            },
        ),
    ]
