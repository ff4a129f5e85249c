import django.contrib.postgres.fields
import django.contrib.postgres.indexes
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
            name='AuditSeal',
            fields=[
                ('n', models.BigIntegerField(primary_key=True, serialize=False)),
                ('removal', models.BooleanField(default=False)),
                ('from_id', models.BigIntegerField()),
                ('to_id', models.BigIntegerField()),
                ('rows', models.IntegerField()),
                ('form', models.SmallIntegerField(help_text='Which text of an entry was digested')),
                ('digest', models.BinaryField(max_length=32)),
                ('prev', models.BinaryField(max_length=32)),
                ('key_id', models.CharField(max_length=8)),
                ('mac', models.BinaryField(max_length=32)),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('removal', 'to_id'), name='sealed_once'), models.CheckConstraint(condition=models.Q(('from_id__lte', models.F('to_id'))), name='seal_is_range')],
            },
        ),
        migrations.CreateModel(
            name='AuditCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('asked_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('finished_at', models.DateTimeField(null=True)),
                ('seals', models.BigIntegerField(default=0)),
                ('entries', models.BigIntegerField(default=0)),
                ('removed', models.BigIntegerField(default=0)),
                ('unsealed', models.BigIntegerField(default=0)),
                ('unknown_key', models.BigIntegerField(default=0, help_text='Seals made with another key')),
                ('trouble', models.JSONField(default=list, help_text='What is wrong, in words')),
                ('head', models.CharField(blank=True, default='', help_text='N:MAC of the end', max_length=90)),
                ('asked_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['-asked_at'], name='check_latest')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('finished_at__isnull', True)), fields=('asked_by',), name='one_open_check_of_person', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor_kind', models.CharField(default='staff', max_length=20)),
                ('action', models.CharField(max_length=20)),
                ('object_type', models.CharField(max_length=40)),
                ('object_ids', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
                ('patient_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('route', models.CharField(blank=True, default='', max_length=100)),
                ('request_id', models.CharField(blank=True, default='', max_length=64)),
                ('ip', models.GenericIPAddressField(null=True)),
                ('outcome', models.CharField(default='ok', max_length=20)),
                ('reason', models.TextField(blank=True, default='')),
                ('row_count', models.IntegerField(null=True)),
                ('before', models.JSONField(null=True)),
                ('after', models.JSONField(null=True)),
                ('actor', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['-at', '-id'], name='audit_latest'), models.Index(fields=['actor', '-at', '-id'], name='audit_of_actor'), models.Index(fields=['action', '-at', '-id'], name='audit_of_action'), models.Index(fields=['object_type', '-at', '-id'], name='audit_of_kind'), models.Index(condition=models.Q(('outcome', 'ok'), _negated=True), fields=['-at', '-id'], name='audit_refused'), models.Index(fields=['request_id'], name='audit_of_request'), django.contrib.postgres.indexes.GinIndex(fields=['object_ids'], name='audit_of_object'), django.contrib.postgres.indexes.GinIndex(fields=['patient_ids'], name='audit_of_patient'), django.contrib.postgres.indexes.GinIndex(condition=models.Q(('action', 'change')), fields=['object_ids'], name='audit_changes_of_object')],
            },
        ),
        migrations.CreateModel(
            name='AuditReview',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField(help_text='Its first day')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('note', models.TextField(blank=True, default='')),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('month', 'by'), name='month_reviewed_once')],
            },
        ),
        *install_sql(__file__, "append_only", "clean_entry_indexes"),
    ]
