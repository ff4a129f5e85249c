import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
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
            ],
            options={
                'indexes': [models.Index(fields=['-created_on', 'id'], name='patient_newest'), models.Index(fields=['client_user_id'], name='patient_client_id')],
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
                'indexes': [django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('name_key', config='simple'), name='demographics_name_words'), models.Index(fields=['name_key', 'user'], name='demographics_by_name'), models.Index(fields=['phone_digits'], name='demographics_phone', opclasses=['text_pattern_ops']), models.Index(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Lower('email'), name='text_pattern_ops'), name='demographics_email'), models.Index(fields=['dob'], name='demographics_dob')],
            },
        ),
        migrations.CreateModel(
            name='DifferentPeople',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('one', models.UUIDField()),
                ('other', models.UUIDField()),
                ('said_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(fields=['other'], name='different_people_other')],
                'constraints': [models.UniqueConstraint(fields=('one', 'other'), name='different_people_once'), models.CheckConstraint(condition=models.Q(('one__lt', models.F('other'))), name='different_people_order')],
            },
        ),
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
                ('user', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='connections', to='patients.patient')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('status', 'connected'), _negated=True), fields=['user'], name='connection_trouble')],
                'constraints': [models.UniqueConstraint(fields=('user', 'slug'), name='connection_key')],
            },
        ),
        migrations.CreateModel(
            name='Insurance',
            fields=[
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('record', backoffice.core.encryption.encrypted_fields.SealedText(help_text='JSON, byte for byte as received')),
                ('is_primary', models.BooleanField()),
                ('payor_code', models.TextField()),
                ('member_id', backoffice.core.encryption.encrypted_fields.SealedText()),
                ('group_id', backoffice.core.encryption.encrypted_fields.SealedText(null=True)),
                ('relationship', models.TextField()),
                ('company_name', models.TextField(default='')),
                ('insured_first_name', backoffice.core.encryption.encrypted_fields.SealedText(default='')),
                ('insured_last_name', backoffice.core.encryption.encrypted_fields.SealedText(default='')),
                ('insured_dob', backoffice.core.encryption.encrypted_fields.SealedDate(null=True)),
                ('superseded_at', models.DateTimeField(default=None, null=True)),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='insurances', to='patients.patient')),
            ],
            options={
                'indexes': [models.Index(fields=['user', 'is_primary', '-as_of'], name='insurance_history')],
            },
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
            options={
                'indexes': [models.Index(fields=['name'], name='payor_by_name')],
            },
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
    ]
