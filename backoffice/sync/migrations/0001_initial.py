import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Lookup',
            fields=[
                ('pk', models.CompositePrimaryKey('kind', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=30)),
                ('key', models.TextField()),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), null=True)),
                ('generation', models.BigIntegerField(db_default=1, default=1)),
                ('attempts', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('unread_answers', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='Those of the attempts that were answered, but not read or stored')),
                ('lease_token', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('looked_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, db_default='', default='', max_length=300)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['kind', 'due_at'], name='lookup_due'), models.Index(condition=models.Q(('error', ''), _negated=True), fields=['kind'], name='lookup_failing')],
            },
        ),
        migrations.CreateModel(
            name='SyncRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=40)),
                ('full', models.BooleanField(help_text='A sweep over everything; otherwise what changed')),
                ('state', models.CharField(choices=[('due', 'Due'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], default='due', max_length=10)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('window_start', models.DateTimeField(help_text='Updated since; null for all', null=True)),
                ('server_date', models.DateTimeField(help_text="Service's clock at the first page", null=True)),
                ('checkpoint', models.JSONField(default=dict, help_text='Where to resume')),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('fence', models.BigIntegerField(default=0, help_text='Grows with each claim; guards writes')),
                ('lease_until', models.DateTimeField(null=True)),
                ('total', models.BigIntegerField(help_text='Rows the service says it has', null=True)),
                ('fetched', models.BigIntegerField(default=0)),
                ('created', models.BigIntegerField(default=0)),
                ('changed', models.BigIntegerField(default=0)),
                ('unchanged', models.BigIntegerField(default=0)),
                ('older', models.BigIntegerField(default=0)),
                ('unseen', models.BigIntegerField(default=0)),
                ('unreadable', models.BigIntegerField(default=0)),
                ('drifted', models.BigIntegerField(default=0)),
                ('error', models.CharField(blank=True, default='', max_length=300)),
            ],
            options={
                'indexes': [models.Index(fields=['resource', '-created_at'], name='run_latest_of_resource'), models.Index(condition=models.Q(('state__in', ['due', 'running'])), fields=['due_at'], name='run_claimable')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ['due', 'running'])), fields=('resource', 'full'), name='one_open_run_of_a_kind')],
            },
        ),
    ]
