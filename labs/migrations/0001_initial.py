import uuid

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

from backoffice.core.migration_sql import install_sql


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('core', '0001_initial'),
        ('patients', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Lab',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('slug', models.TextField()),
                ('name', models.TextField()),
                ('first_line_address', models.TextField(default='')),
                ('city', models.TextField(default='')),
                ('zipcode', models.TextField(default='')),
                ('collection_methods', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
                ('sample_types', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
                ('logo_url', models.TextField(null=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Physician',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('npi', models.TextField(primary_key=True, serialize=False)),
                ('first_name', models.TextField()),
                ('last_name', models.TextField()),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='LabAccount',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('lab', models.TextField(help_text='Lab slug')),
                ('org_id', models.UUIDField(null=True)),
                ('status', models.TextField()),
                ('delegated_flow', models.TextField()),
                ('provider_account_id', models.TextField()),
                ('account_name', models.TextField(null=True)),
                ('default_clinical_notes', models.TextField(null=True)),
                ('business_units', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), null=True, size=None)),
                ('catalog_read_at', models.DateTimeField(help_text='When its lists of lab tests and markers were last read; null: never', null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['lab', 'status'], name='account_of_lab')],
            },
        ),
        migrations.CreateModel(
            name='LabAccountTeam',
            fields=[
                ('pk', models.CompositePrimaryKey('account_id', 'team_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('team_id', models.UUIDField()),
                ('account', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='teams', to='labs.labaccount')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='LabTest',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('slug', models.TextField()),
                ('name', models.TextField()),
                ('description', models.TextField(null=True)),
                ('sample_type', models.TextField()),
                ('method', models.TextField()),
                ('price', models.FloatField(null=True)),
                ('is_active', models.BooleanField(null=True)),
                ('status', models.TextField()),
                ('fasting', models.BooleanField(default=False)),
                ('auto_generated', models.BooleanField(default=False)),
                ('has_collection_instructions', models.BooleanField(null=True)),
                ('common_tat_days', models.IntegerField(null=True)),
                ('worst_case_tat_days', models.IntegerField(null=True)),
                ('lab', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='lab_tests', to='labs.lab')),
            ],
        ),
        migrations.CreateModel(
            name='LabAccountTest',
            fields=[
                ('pk', models.CompositePrimaryKey('account_id', 'lab_test_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('account', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='account_tests', to='labs.labaccount')),
                ('lab_test', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='test_accounts', to='labs.labtest')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Marker',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('slug', models.TextField()),
                ('description', models.TextField(null=True)),
                ('provider_id', models.TextField(null=True)),
                ('type', models.TextField(null=True)),
                ('unit', models.TextField(null=True)),
                ('price', models.TextField(null=True)),
                ('a_la_carte_enabled', models.BooleanField(default=False)),
                ('is_orderable', models.BooleanField(null=True)),
                ('has_questions', models.BooleanField(default=False, help_text='Order-entry questions exist')),
                ('common_tat_days', models.IntegerField(null=True)),
                ('worst_case_tat_days', models.IntegerField(null=True)),
                ('lab', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='markers', to='labs.lab')),
            ],
        ),
        migrations.CreateModel(
            name='LabTestMarker',
            fields=[
                ('pk', models.CompositePrimaryKey('lab_test_id', 'marker_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveIntegerField()),
                ('lab_test', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='test_markers', to='labs.labtest')),
                ('marker', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='in_tests', to='labs.marker')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='LabAccountMarker',
            fields=[
                ('pk', models.CompositePrimaryKey('account_id', 'marker_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('account', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='account_markers', to='labs.labaccount')),
                ('marker', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='marker_accounts', to='labs.marker')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='ExpectedResult',
            fields=[
                ('pk', models.CompositePrimaryKey('marker_id', 'position', blank=True, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveSmallIntegerField()),
                ('result_id', models.BigIntegerField()),
                ('name', models.TextField()),
                ('slug', models.TextField()),
                ('lab_id', models.BigIntegerField(null=True)),
                ('provider_id', models.TextField(null=True)),
                ('required', models.BooleanField(null=True)),
                ('loinc_code', models.TextField(null=True)),
                ('loinc_name', models.TextField(null=True)),
                ('loinc_slug', models.TextField(null=True)),
                ('unit', models.TextField(null=True)),
                ('marker', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='expected_results', to='labs.marker')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Report',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('form_id', models.UUIDField(help_text='One per form shown: a second send is none', unique=True)),
                ('uploaded_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('needs_human_review', models.BooleanField(default=False)),
                ('state', models.TextField(default='stored')),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('lease_token', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('doubted', models.BooleanField(db_default=False, default=False, help_text='The outcome of a sending is unknown, so a refusal after it proves nothing')),
                ('refusal', models.TextField(blank=True, default='', help_text="The service's words, or ours")),
                ('request_id', models.CharField(blank=True, db_default='', default='', help_text='Of the page that asked to send it', max_length=32)),
                ('earlier_job_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('accepted_at', models.DateTimeField(null=True)),
                ('accepted_hash', models.BinaryField(help_text='What was accepted', max_length=16, null=True)),
                ('changed_since_accepted', models.BooleanField(default=False, help_text='Read anew or corrected: the acceptance no longer holds')),
                ('accepted_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('uploaded_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='reports', to='patients.patient')),
            ],
        ),
        migrations.CreateModel(
            name='ReportFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('stored_as', models.CharField(max_length=64, unique=True)),
                ('given_name', models.TextField()),
                ('kind', models.CharField(help_text='Media type, from the content', max_length=40)),
                ('size', models.PositiveIntegerField(validators=[django.core.validators.MinValueValidator(1)])),
                ('sha256', models.BinaryField(max_length=32)),
                ('pages', models.PositiveSmallIntegerField(help_text='Of a PDF', null=True)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='labs.report')),
            ],
        ),
        migrations.CreateModel(
            name='ReportJob',
            fields=[
                ('record', models.TextField(help_text='JSON, byte for byte as received')),
                ('content_hash', models.BinaryField(max_length=16)),
                ('as_of', models.DateTimeField()),
                ('missing_since', models.DateTimeField(default=None, null=True)),
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('status', models.TextField()),
                ('state', models.TextField(help_text='The status, or pending_review, told by the two flags')),
                ('failure_reason', models.TextField(null=True)),
                ('needs_human_review', models.BooleanField()),
                ('is_reviewed', models.BooleanField()),
                ('progress', models.PositiveSmallIntegerField()),
                ('patient_first_name', models.TextField(null=True)),
                ('patient_last_name', models.TextField(null=True)),
                ('dob', models.TextField(help_text='As printed on the report: no fixed format', null=True)),
                ('gender', models.TextField(null=True)),
                ('lab_name', models.TextField(null=True)),
                ('date_reported', models.TextField(null=True)),
                ('date_collected', models.TextField(null=True)),
                ('specimen_number', models.TextField(null=True)),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='report_jobs', to='patients.patient')),
            ],
        ),
        migrations.AddField(
            model_name='report',
            name='job',
            field=models.OneToOneField(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='report', to='labs.reportjob'),
        ),
        migrations.CreateModel(
            name='ReportResult',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'position', blank=True, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveSmallIntegerField()),
                ('test_name', models.TextField()),
                ('value', models.TextField(help_text='Text as printed, whatever its type')),
                ('type', models.TextField(null=True)),
                ('units', models.TextField(null=True)),
                ('min_reference_range', models.FloatField(null=True)),
                ('max_reference_range', models.FloatField(null=True)),
                ('interpretation', models.TextField(help_text='Our reading of the whole row', null=True)),
                ('interpretation_received', models.TextField(help_text="The service's word", null=True)),
                ('is_above_max_range', models.BooleanField(null=True)),
                ('is_below_min_range', models.BooleanField(null=True)),
                ('sample_type', models.TextField(null=True)),
                ('measurement_kind', models.TextField(null=True)),
                ('sensitivity', models.TextField(null=True)),
                ('source_panel_name', models.TextField(null=True)),
                ('loinc_match_status', models.TextField(null=True)),
                ('loinc_matches', models.JSONField(default=list)),
                ('reading', models.BinaryField(help_text='Digest of what was read in this row', max_length=16)),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='results', to='labs.reportjob')),
            ],
        ),
        migrations.CreateModel(
            name='RowCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_id', models.UUIDField()),
                ('position', models.PositiveSmallIntegerField()),
                ('reading', models.BinaryField(max_length=16)),
                ('checked', models.BooleanField()),
                ('corrections', models.JSONField(default=dict, help_text='Columns of the row that are otherwise')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checks', to='labs.report')),
            ],
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
            ],
            options={
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('name'), name='team_name_once', violation_error_message='Another team is called so.')],
            },
        ),
        migrations.AddIndex(
            model_name='labtest',
            index=models.Index(fields=['name', 'id'], name='lab_test_by_name'),
        ),
        migrations.AddIndex(
            model_name='marker',
            index=models.Index(fields=['lab', 'name', 'id'], name='marker_of_lab'),
        ),
        migrations.AddIndex(
            model_name='reportfile',
            index=models.Index(fields=['sha256'], name='report_file_same'),
        ),
        migrations.AddConstraint(
            model_name='reportfile',
            constraint=models.UniqueConstraint(fields=('report', 'position'), name='report_file_place'),
        ),
        migrations.AddIndex(
            model_name='reportjob',
            index=models.Index(fields=['user', '-as_of'], name='report_job_of_patient'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(fields=['-uploaded_at', 'id'], name='report_newest'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(condition=models.Q(('state__in', ('uncertain', 'refused', 'failed')), models.Q(('accepted_at', None), ('state', 'completed')), models.Q(('changed_since_accepted', True), ('state', 'completed')), _connector='OR'), fields=['-uploaded_at', 'id'], name='report_for_us'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(condition=models.Q(('state__in', ('uncertain', 'refused', 'failed', 'completed', 'given_up')), _negated=True), fields=['-uploaded_at', 'id'], name='report_under_way'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(fields=['user', '-uploaded_at'], name='report_of_patient'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(fields=['uploaded_by', 'uploaded_at'], name='report_by_uploader'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(condition=models.Q(('state__in', ['stored', 'sending'])), fields=['due_at'], name='report_claimable'),
        ),
        migrations.AddIndex(
            model_name='rowcheck',
            index=models.Index(fields=['report', 'position', '-id'], name='row_check_latest'),
        ),
        *install_sql(__file__, "storage", "report_changes"),
    ]
