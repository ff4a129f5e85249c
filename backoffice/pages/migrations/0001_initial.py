import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='BulkRun',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('listing', models.CharField(max_length=40)),
                ('verb', models.CharField(max_length=40)),
                ('title', models.CharField(max_length=200)),
                ('given', models.JSONField(default=dict, help_text='What its form held, read')),
                ('query', models.JSONField(default=dict, help_text='The list it was asked on, to go back to')),
                ('asked_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('form_id', models.UUIDField(help_text='One per form shown: a second send is none', unique=True)),
                ('state', models.CharField(choices=[('open', 'Under way'), ('done', 'Done'), ('stopped', 'Stopped')], default='open', max_length=10)),
                ('total', models.PositiveIntegerField()),
                ('done', models.PositiveIntegerField(default=0)),
                ('failed', models.PositiveIntegerField(default=0)),
                ('lease_token', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('again', models.ForeignKey(help_text='The run whose failures it repeats', null=True, on_delete=django.db.models.deletion.SET_NULL, to='pages.bulkrun')),
                ('asked_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='BulkRow',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('key', models.UUIDField()),
                ('patient_id', models.UUIDField(null=True)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('done', 'Done'), ('failed', 'Not done')], db_default='waiting', default='waiting', max_length=10)),
                ('words', models.TextField(blank=True, db_default='', default='', help_text='Why it was not done')),
                ('command_id', models.UUIDField(help_text='What was asked of the service for it', null=True)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='rows', to='pages.bulkrun')),
            ],
        ),
        migrations.CreateModel(
            name='ListChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('listing', models.CharField(max_length=40)),
                ('columns', models.JSONField(default=list)),
                ('density', models.CharField(blank=True, default='', max_length=10)),
                ('size', models.PositiveSmallIntegerField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('listing', models.CharField(max_length=40)),
                ('name', models.CharField(max_length=60)),
                ('shared', models.BooleanField(default=False)),
                ('opens_for', models.CharField(blank=True, default='', max_length=40)),
                ('position', models.PositiveIntegerField(default=0)),
                ('query', models.JSONField(default=dict)),
                ('columns', models.JSONField(default=list)),
                ('density', models.CharField(blank=True, default='', max_length=10)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.AddIndex(
            model_name='bulkrun',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['asked_at'], name='bulk_run_open'),
        ),
        migrations.AddIndex(
            model_name='bulkrun',
            index=models.Index(fields=['asked_by', '-asked_at'], name='bulk_run_of_person'),
        ),
        migrations.AddIndex(
            model_name='bulkrow',
            index=models.Index(condition=models.Q(('state', 'waiting')), fields=['run', 'key'], name='bulk_row_waiting'),
        ),
        migrations.AddIndex(
            model_name='bulkrow',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['run', 'key'], name='bulk_row_failed'),
        ),
        migrations.AddConstraint(
            model_name='listchoice',
            constraint=models.UniqueConstraint(fields=('user', 'listing'), name='list_choice_once'),
        ),
        migrations.AddIndex(
            model_name='savedview',
            index=models.Index(condition=models.Q(('shared', True)), fields=['listing'], name='view_shared'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(fields=('listing', 'owner', 'name'), name='view_name_once'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(condition=models.Q(('opens_for', 'me')), fields=('listing', 'owner'), name='one_view_opens_for_me'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(condition=models.Q(('opens_for__in', ['', 'me']), _negated=True), fields=('listing', 'opens_for'), name='one_view_opens_for_role'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.CheckConstraint(condition=models.Q(('shared', True), ('opens_for__in', ['', 'me']), _connector='OR'), name='view_of_role_is_shared'),
        ),
    ]
