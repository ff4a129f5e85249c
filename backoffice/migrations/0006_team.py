import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

ADDED_ONLY = ("backoffice_note", "backoffice_contact", "backoffice_assignmentchange")


def only_added() -> list[migrations.RunSQL]:
    function = migrations.RunSQL(
        """
        CREATE FUNCTION backoffice_only_added() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'rows of % are added, never changed', TG_TABLE_NAME
                USING ERRCODE = 'restrict_violation';
        END $$
        """,
        "DROP FUNCTION backoffice_only_added()",
    )
    triggers = [
        migrations.RunSQL(
            f"CREATE TRIGGER only_added BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION backoffice_only_added()",
            f"DROP TRIGGER only_added ON {table}",
        )
        for table in ADDED_ONLY
    ]
    return [function, *triggers]


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0005_command_readers")]

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
            ],
        ),
        migrations.CreateModel(
            name='AssignmentChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.TextField()),
                ('patient_id', models.UUIDField(null=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
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
            ],
        ),
        migrations.CreateModel(
            name='MailChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('wanted', models.BooleanField()),
            ],
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
            ],
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
            ],
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=django.contrib.postgres.indexes.GinIndex(fields=['patient_ids'], name='audit_of_patient'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=django.contrib.postgres.indexes.GinIndex(condition=models.Q(('action', 'change')), fields=['object_ids'], name='audit_changes_of_object'),
        ),
        migrations.AddField(
            model_name='assignment',
            name='by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='assignment',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='assignmentchange',
            name='after',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='assignmentchange',
            name='before',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='assignmentchange',
            name='by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='contact',
            name='by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='mailchoice',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='note',
            name='author',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='notification',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='assignment',
            index=models.Index(fields=['user', '-at'], name='assignment_of_person'),
        ),
        migrations.AddConstraint(
            model_name='assignment',
            constraint=models.UniqueConstraint(fields=('subject_type', 'subject_id'), name='assigned_once'),
        ),
        migrations.AddIndex(
            model_name='assignmentchange',
            index=models.Index(fields=['subject_type', 'subject_id', '-at'], name='assigned_of_subject'),
        ),
        migrations.AddIndex(
            model_name='assignmentchange',
            index=models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-at'], name='assigned_of_patient'),
        ),
        migrations.AddIndex(
            model_name='contact',
            index=models.Index(fields=['subject_type', 'subject_id', '-at'], name='contact_of_subject'),
        ),
        migrations.AddIndex(
            model_name='contact',
            index=models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-at'], name='contact_of_patient'),
        ),
        migrations.AddConstraint(
            model_name='mailchoice',
            constraint=models.UniqueConstraint(fields=('user', 'kind'), name='mail_choice_once'),
        ),
        migrations.AddIndex(
            model_name='note',
            index=models.Index(fields=['subject_type', 'subject_id', '-at'], name='note_of_subject'),
        ),
        migrations.AddIndex(
            model_name='note',
            index=models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-at'], name='note_of_patient'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(fields=['user', '-at', '-id'], name='notification_newest'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('seen_at__isnull', True)), fields=['user'], name='notification_unseen'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('mail_due_at__isnull', False)), fields=['mail_due_at'], name='notification_to_mail'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('mail_id__isnull', False)), fields=['mail_id'], name='notification_mail'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.UniqueConstraint(fields=('user', 'kind', 'subject_type', 'subject_id', 'about'), name='told_once'),
        ),
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(condition=models.Q(('patient_id__isnull', False)), fields=['patient_id', '-requested_at'], name='command_of_patient'),
        ),
        *only_added(),
    ]
