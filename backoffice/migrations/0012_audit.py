"""Seals, checks and reviews of the audit trail, the indexes of its readers, and triggers that let
nothing of it be changed.

Entries that are old and sealed can be deleted by a transaction that says how many years it keeps;
`audit/retention.py` is the one that does. Who owns the tables can drop triggers: what that does to
entries, their seals show.
"""

import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

KEPT = """
CREATE FUNCTION backoffice_audit_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  years int := nullif(current_setting('backoffice.audit_keep_years', true), '')::int;
BEGIN
  IF TG_TABLE_NAME = 'backoffice_auditentry' AND TG_OP = 'DELETE' AND years >= 1 THEN
    -- Of the seals that end behind it, the first is the one that covers it.
    IF OLD.at < now() - make_interval(years => years) AND (
      SELECT from_id <= OLD.id AND at < now() - make_interval(years => years)
      FROM backoffice_auditseal WHERE NOT removal AND to_id >= OLD.id ORDER BY to_id LIMIT 1
    ) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'rows of % are added, never changed', TG_TABLE_NAME
    USING ERRCODE = 'restrict_violation';
END $$
"""


def kept() -> list[migrations.RunSQL]:
    made = [migrations.RunSQL(KEPT, "DROP FUNCTION backoffice_audit_kept()")]
    for table in ("backoffice_auditentry", "backoffice_auditseal", "backoffice_auditreview"):
        for name, when in (
            ("kept", "UPDATE OR DELETE ON {} FOR EACH ROW"),
            ("kept_whole", "TRUNCATE ON {} FOR EACH STATEMENT"),
        ):
            made.append(
                migrations.RunSQL(
                    f"CREATE TRIGGER {name} BEFORE {when.format(table)}"
                    " EXECUTE FUNCTION backoffice_audit_kept()",
                    f"DROP TRIGGER {name} ON {table}",
                )
            )
    return made


class Migration(migrations.Migration):

    dependencies = [
        ('backoffice', '0011_sealed_columns'),
    ]

    operations = [
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
            ],
        ),
        migrations.CreateModel(
            name='AuditReview',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField(help_text='Its first day')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('note', models.TextField(blank=True, default='')),
            ],
        ),
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
        ),
        migrations.RemoveIndex(
            model_name='auditentry',
            name='audit_latest',
        ),
        migrations.AddField(
            model_name='auditentry',
            name='after',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='before',
            field=models.JSONField(null=True),
        ),
        migrations.AlterField(
            model_name='auditentry',
            name='actor',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['-at', '-id'], name='audit_latest'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['actor', '-at', '-id'], name='audit_of_actor'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['action', '-at', '-id'], name='audit_of_action'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['object_type', '-at', '-id'], name='audit_of_kind'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(condition=models.Q(('outcome', 'ok'), _negated=True), fields=['-at', '-id'], name='audit_refused'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['request_id'], name='audit_of_request'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=django.contrib.postgres.indexes.GinIndex(fields=['object_ids'], name='audit_of_object'),
        ),
        migrations.AddField(
            model_name='auditcheck',
            name='asked_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='auditreview',
            name='by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='auditseal',
            constraint=models.UniqueConstraint(fields=('removal', 'to_id'), name='sealed_once'),
        ),
        migrations.AddConstraint(
            model_name='auditseal',
            constraint=models.CheckConstraint(condition=models.Q(('from_id__lte', models.F('to_id'))), name='seal_is_range'),
        ),
        migrations.AddIndex(
            model_name='auditcheck',
            index=models.Index(fields=['-asked_at'], name='check_latest'),
        ),
        migrations.AddConstraint(
            model_name='auditcheck',
            constraint=models.UniqueConstraint(condition=models.Q(('finished_at__isnull', True)), fields=('asked_by',), name='one_open_check_of_person', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='auditreview',
            constraint=models.UniqueConstraint(fields=('month', 'by'), name='month_reviewed_once'),
        ),
        *kept(),
    ]
