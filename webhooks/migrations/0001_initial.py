import django.db.models.functions.datetime
from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields
from backoffice.core.migration_sql import install_sql


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('message_id', models.TextField()),
                ('sent_at', models.DateTimeField(help_text='Signed time of the first delivery')),
                ('received_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='First delivery, by our clock')),
                ('last_received_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('deliveries', models.PositiveIntegerField(db_default=1, default=1)),
                ('key_id', models.TextField(db_default='', default='', help_text='Which secret verified it')),
                ('body', backoffice.core.encryption.encrypted_fields.EncryptedBinaryField(by='message_id', null=True)),
                ('body_digest', models.BinaryField(max_length=16)),
                ('body_conflict', models.BooleanField(db_default=False, default=False, help_text='Came again with another body; the first counts')),
                ('event_type', models.TextField(db_default='', default='')),
                ('subject_id', models.TextField(db_default='', default='', help_text="The record it is about: its order where there is one, else the record's own id")),
                ('user_id', models.UUIDField(null=True)),
                ('team_id', models.UUIDField(null=True)),
                ('state', models.CharField(choices=[('pending', 'Waiting'), ('retry', 'Failed, to be tried again'), ('done', 'Done'), ('skipped', 'Skipped'), ('quarantined', 'Of another team'), ('dead', 'Failed')], db_default='pending', default='pending', max_length=12)),
                ('outcome', models.CharField(db_default='', default='', help_text='applied, stale, unchanged, looked up, ignored, kept, unknown type, foreign team, team not known yet, failed', max_length=30)),
                ('attempts', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('applied_at', models.DateTimeField(help_text='When it was done with', null=True)),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('path', models.CharField(blank=True, db_default='', default='', max_length=200)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state__in', ['pending', 'retry'])), fields=['due_at', 'id'], name='event_due'), models.Index(condition=models.Q(('subject_id', ''), _negated=True), fields=['subject_id', 'id'], name='event_of_subject'), models.Index(condition=models.Q(('user_id__isnull', False)), fields=['user_id', 'id'], name='event_of_patient'), models.Index(fields=['event_type', 'id'], name='event_of_type'), models.Index(condition=models.Q(('state__in', ['retry', 'skipped', 'quarantined', 'dead'])), fields=['state', 'id'], name='event_failing'), models.Index(condition=models.Q(('body_conflict', True)), fields=['id'], name='event_body_conflict'), models.Index(condition=models.Q(('body__isnull', False), ('state__in', ['done', 'skipped', 'quarantined'])), fields=['id'], name='event_with_body')],
                'constraints': [models.UniqueConstraint(fields=('message_id',), name='event_once')],
            },
        ),
        migrations.CreateModel(
            name='Refusal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('reason', models.CharField(max_length=60)),
                ('times', models.BigIntegerField(default=0)),
                ('last_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seconds_off', models.FloatField(help_text='Of the latest stale one: its time minus ours', null=True)),
                ('minute', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Of the latest one')),
                ('in_minute', models.BigIntegerField(db_default=0, default=0)),
                ('flood_at', models.DateTimeField(help_text='When a minute last saw more of them than mishaps bring', null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('hour', 'reason'), name='refusal_of_hour')],
            },
        ),
        *install_sql(__file__, "storage"),
    ]
