import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields
import backoffice.core.identifiers
from backoffice.core.migration_sql import install_sql


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Connection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('slug', models.TextField()),
                ('name', models.TextField()),
                ('logo', models.TextField(default='')),
                ('created_on', models.DateTimeField()),
                ('status', models.TextField()),
                ('error_type', models.TextField(null=True)),
                ('error_message', models.TextField(null=True)),
                ('errored_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Patient',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('team_id', models.UUIDField()),
                ('client_user_id', models.TextField()),
                ('created_on', models.DateTimeField()),
                ('fallback_time_zone', models.TextField(null=True)),
                ('fallback_birth_date', models.DateField(null=True)),
                ('ingestion_start', models.DateField(null=True)),
                ('ingestion_end', models.DateField(null=True)),
                ('first_name', models.TextField(db_default='', default='')),
                ('last_name', models.TextField(db_default='', default='')),
                ('name_key', models.TextField(db_default='', default='', help_text='First and last name, folded, for search and sort')),
                ('email', models.TextField(db_default='', default='')),
                ('phone_number', models.TextField(db_default='', default='')),
                ('phone_digits', models.TextField(db_default='', default='', help_text='Digits only, reversed: prefix search on any tail')),
                ('gender', models.TextField(db_default='', default='')),
                ('dob', models.DateField(null=True)),
                ('city', models.TextField(db_default='', default='')),
                ('state', models.TextField(db_default='', default='')),
                ('zip', models.TextField(db_default='', default='')),
                ('fields_from_order', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), db_default=models.Value([], django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)), default=list, help_text='Those of name, dob, gender, phone, email that demographics lack', size=None)),
                ('source_order_id', models.UUIDField(help_text='The order that gave them', null=True)),
                ('source_order_created_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='DifferentPeople',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('one', models.UUIDField()),
                ('other', models.UUIDField()),
                ('said_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='Insurance',
            fields=[
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('record', backoffice.core.encryption.encrypted_fields.EncryptedTextField(help_text='JSON, byte for byte as received')),
                ('is_primary', models.BooleanField()),
                ('payor_code', models.TextField()),
                ('member_id', backoffice.core.encryption.encrypted_fields.EncryptedTextField()),
                ('group_id', backoffice.core.encryption.encrypted_fields.EncryptedTextField(null=True)),
                ('relationship', models.TextField()),
                ('company_name', models.TextField(default='')),
                ('insured_first_name', backoffice.core.encryption.encrypted_fields.EncryptedTextField(default='')),
                ('insured_last_name', backoffice.core.encryption.encrypted_fields.EncryptedTextField(default='')),
                ('insured_dob', backoffice.core.encryption.encrypted_fields.EncryptedDateField(null=True)),
                ('superseded_at', models.DateTimeField(default=None, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Payor',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('payor_code', models.TextField(primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('aliases', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
                ('source', models.TextField(null=True)),
                ('city', models.TextField(default='')),
                ('state', models.TextField(default='')),
            ],
        ),
        migrations.CreateModel(
            name='Provider',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('slug', models.TextField(primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('description', models.TextField(default='')),
                ('logo', models.TextField(null=True)),
                ('auth_type', models.TextField(null=True)),
                ('supported_resources', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='RegistrationDraft',
            fields=[
                ('saved_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('written', models.CharField(db_default='', max_length=40)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('typed', backoffice.core.encryption.encrypted_fields.EncryptedJSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='ConnectLink',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('url', backoffice.core.encryption.encrypted_fields.EncryptedTextField(default='')),
                ('expires_at', models.DateTimeField()),
                ('shown_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['expires_at'], name='connect_link_old')],
            },
        ),
        migrations.CreateModel(
            name='Demographics',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('user', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='demographics', serialize=False, to='patients.patient')),
                ('first_name', models.TextField()),
                ('last_name', models.TextField()),
                ('name_key', models.TextField(help_text='First and last name, folded, for search and sort')),
                ('email', models.TextField()),
                ('phone_number', models.TextField()),
                ('phone_digits', models.TextField(help_text='Digits only, reversed: prefix search on any tail')),
                ('gender', models.TextField()),
                ('dob', models.DateField(null=True)),
                ('first_line', models.TextField(default='')),
                ('second_line', models.TextField(default='')),
                ('city', models.TextField(default='')),
                ('state', models.TextField(default='')),
                ('zip', models.TextField(default='')),
                ('country', models.TextField(default='')),
                ('race', models.TextField(null=True)),
                ('ethnicity', models.TextField(null=True)),
                ('sexual_orientation', models.TextField(null=True)),
                ('gender_identity', models.TextField(null=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='PatientNameWord',
            fields=[
                ('pk', models.CompositePrimaryKey('word', 'user', 'name_key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('word', models.TextField(db_collation='C')),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='patients.patient')),
                ('name_key', models.TextField()),
            ],
        ),
        migrations.AddIndex(
            model_name='patient',
            index=models.Index(fields=['-created_on', 'id'], name='patient_newest'),
        ),
        migrations.AddIndex(
            model_name='patient',
            index=models.Index(backoffice.core.identifiers.IdentifierKey('client_user_id'), name='patient_client_id'),
        ),
        migrations.AddIndex(
            model_name='patient',
            index=models.Index(fields=['name_key', 'id'], name='patient_by_name'),
        ),
        migrations.AddIndex(
            model_name='patient',
            index=models.Index(fields=['dob', 'id'], name='patient_by_birth_date'),
        ),
        migrations.AddIndex(
            model_name='patient',
            index=models.Index(fields=['phone_digits'], name='patient_phone', opclasses=['text_pattern_ops']),
        ),
        migrations.AddIndex(
            model_name='patient',
            index=models.Index(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Lower('email'), name='text_pattern_ops'), name='patient_email'),
        ),
        migrations.AddField(
            model_name='connection',
            name='user',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='connections', to='patients.patient'),
        ),
        migrations.AddIndex(
            model_name='differentpeople',
            index=models.Index(fields=['other'], name='different_people_other'),
        ),
        migrations.AddConstraint(
            model_name='differentpeople',
            constraint=models.UniqueConstraint(fields=('one', 'other'), name='different_people_once'),
        ),
        migrations.AddConstraint(
            model_name='differentpeople',
            constraint=models.CheckConstraint(condition=models.Q(('one__lt', models.F('other'))), name='different_people_order'),
        ),
        migrations.AddField(
            model_name='insurance',
            name='user',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='insurances', to='patients.patient'),
        ),
        migrations.AddIndex(
            model_name='payor',
            index=models.Index(fields=['name'], name='payor_by_name'),
        ),
        migrations.AddIndex(
            model_name='registrationdraft',
            index=models.Index(fields=['saved_at'], name='registration_draft_old'),
        ),
        migrations.AddIndex(
            model_name='connection',
            index=models.Index(condition=models.Q(('status', 'connected'), _negated=True), fields=['user'], name='connection_trouble'),
        ),
        migrations.AddConstraint(
            model_name='connection',
            constraint=models.UniqueConstraint(fields=('user', 'slug'), name='connection_key'),
        ),
        migrations.AddIndex(
            model_name='insurance',
            index=models.Index(fields=['user', 'is_primary', '-as_of'], name='insurance_history'),
        ),
        *install_sql(__file__, "storage", "identity", "name_words"),
    ]
