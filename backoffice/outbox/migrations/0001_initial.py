import uuid

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
            name='CommandRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=40)),
                ('title', models.CharField(max_length=200)),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.TextField()),
                ('patient_id', models.UUIDField(null=True)),
                ('lock', models.TextField(blank=True, default='')),
                ('payload', backoffice.core.encryption.encrypted_fields.EncryptedJSONField()),
                ('form_id', models.UUIDField(help_text='One per form shown: a second send is none', unique=True)),
                ('form_url', models.TextField(blank=True, default='')),
                ('form_data', backoffice.core.encryption.encrypted_fields.EncryptedJSONField(default=dict, help_text='What stood in the form, as typed')),
                ('requested_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('request_id', models.CharField(db_default='', default='', help_text="Of the page's request that asked", max_length=32)),
                ('reason', models.TextField(blank=True, default='')),
                ('idempotency_key', models.UUIDField()),
                ('keyed_at', models.DateTimeField(help_text='When this key was first sent', null=True)),
                ('keys', models.PositiveSmallIntegerField(default=1)),
                ('state', models.CharField(choices=[('waiting', 'Waiting to be sent'), ('sending', 'Being sent'), ('uncertain', 'Outcome unknown, being checked'), ('undecided', 'Needs your decision'), ('done', 'Done'), ('refused', 'Refused'), ('withdrawn', 'Taken back'), ('given_up', 'Given up')], default='waiting', max_length=12)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('looks', models.PositiveSmallIntegerField(default=0)),
                ('doubted', models.BooleanField(default=False)),
                ('lease_token', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('first_sent_at', models.DateTimeField(null=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('settle_until', models.DateTimeField(help_text='Until then a slow sending may still arrive', null=True)),
                ('hindrance', models.TextField(blank=True, default='', help_text='Why it still waits')),
                ('refusal', models.TextField(blank=True, default='', help_text="The service's words, or ours")),
                ('refusal_fields', models.JSONField(default=list)),
                ('status', models.PositiveSmallIntegerField(help_text='HTTP status of the refusal', null=True)),
                ('found', models.JSONField(default=list, help_text='What may be what was asked for: id, words')),
                ('remote_id', models.TextField(blank=True, default='')),
                ('done_url', models.TextField(blank=True, default='')),
                ('confirmed_by', models.CharField(blank=True, default='', help_text='answer, look-up, person', max_length=10)),
                ('decision', models.CharField(blank=True, default='', max_length=10)),
                ('finished_at', models.DateTimeField(null=True)),
                ('looked_at', models.DateTimeField(help_text='Last look-up after it had ended', null=True)),
                ('late_after', models.CharField(blank=True, db_default='', default='', help_text='It happened after it had ended like this: given_up or refused', max_length=12)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('requested_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='CommandAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('phase', models.CharField(help_text='send, look up', max_length=10)),
                ('began_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('outcome', models.CharField(max_length=12)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('trace_id', models.CharField(blank=True, default='', max_length=64)),
                ('command', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='history', to='outbox.commandrecord')),
            ],
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('state__in', ['waiting', 'sending', 'uncertain', 'undecided'])), fields=['due_at'], name='command_due'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(fields=['subject_type', 'subject_id', '-requested_at'], name='command_of_subject'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-requested_at'], name='command_of_patient'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(fields=['-requested_at', 'id'], name='command_newest'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(fields=['requested_by', '-requested_at', 'id'], name='command_of_person'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('state', 'refused')), fields=['-requested_at', 'id'], name='command_refused'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('state', 'refused')), fields=['finished_at'], name='command_refused_lately'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('state', 'given_up'), models.Q(('doubted', True), ('state', 'refused')), _connector='OR'), fields=['due_at'], name='command_followed'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('late_after', ''), _negated=True), fields=['finished_at'], name='command_happened_late'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('confirmed_by', 'person')), fields=['finished_at'], name='command_by_person'),
        ),
        migrations.AddConstraint(
            model_name='commandrecord',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['waiting', 'sending', 'uncertain', 'undecided']), models.Q(('lock', ''), _negated=True)), fields=('lock',), name='one_open_command'),
        ),
    ]
