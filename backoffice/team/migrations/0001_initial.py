import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from backoffice.core.migration_sql import install_sql


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Assignment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.TextField()),
                ('patient_id', models.UUIDField(null=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('known', models.TextField(blank=True, db_default='', default='', help_text='State of the record its person knows of')),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['user', '-at'], name='assignment_of_person')],
                'constraints': [models.UniqueConstraint(fields=('subject_type', 'subject_id'), name='assigned_once')],
            },
        ),
        migrations.CreateModel(
            name='AssignmentChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.TextField()),
                ('patient_id', models.UUIDField(null=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('after', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('before', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['subject_type', 'subject_id', '-at'], name='assigned_of_subject'), models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-at'], name='assigned_of_patient')],
            },
        ),
        migrations.CreateModel(
            name='Contact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('patient_id', models.UUIDField(null=True)),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.TextField()),
                ('outcome', models.CharField(choices=[('spoke', 'Spoke with the patient'), ('voicemail', 'Left a voicemail'), ('no_answer', 'No answer'), ('wrong_number', 'Wrong number'), ('reship_asked', 'Asked to send it again'), ('snoozed', 'Put off')], max_length=20)),
                ('note', models.TextField(blank=True, default='')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('next_due_at', models.DateTimeField(null=True)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['subject_type', 'subject_id', '-at'], name='contact_of_subject'), models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-at'], name='contact_of_patient')],
            },
        ),
        migrations.CreateModel(
            name='MailChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('wanted', models.BooleanField()),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'kind'), name='mail_choice_once')],
            },
        ),
        migrations.CreateModel(
            name='Note',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.TextField()),
                ('patient_id', models.UUIDField(null=True)),
                ('text', models.TextField()),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['subject_type', 'subject_id', '-at'], name='note_of_subject'), models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-at'], name='note_of_patient')],
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.TextField()),
                ('about', models.TextField()),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seen_at', models.DateTimeField(null=True)),
                ('mail_due_at', models.DateTimeField(help_text='Null: no e-mail is to be sent', null=True)),
                ('mail_id', models.UUIDField(null=True)),
                ('mail_attempts', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('mail_lease_until', models.DateTimeField(null=True)),
                ('mailed_at', models.DateTimeField(null=True)),
                ('mail_error', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['user', '-at', '-id'], name='notification_newest'), models.Index(condition=models.Q(('seen_at__isnull', True)), fields=['user'], name='notification_unseen'), models.Index(condition=models.Q(('mail_due_at__isnull', False)), fields=['mail_due_at'], name='notification_to_mail'), models.Index(condition=models.Q(('mail_id__isnull', False)), fields=['mail_id'], name='notification_mail'), models.Index(condition=models.Q(('kind', 'critical-waits')), fields=['subject_id', 'about'], name='notification_critical')],
                'constraints': [models.UniqueConstraint(fields=('user', 'kind', 'subject_type', 'subject_id', 'about'), name='told_once')],
            },
        ),
        *install_sql(__file__, "append_only"),
    ]
