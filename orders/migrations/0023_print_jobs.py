"""Tables for jobs that print the documents of many orders, their parts and files."""

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import backoffice.core.encryption.encrypted_fields


class Migration(migrations.Migration):

    dependencies = [
        ('orders', '0022_patients_known_by_orders'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='PrintJob',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('form_id', models.UUIDField(help_text='One per form shown: a second send is none')),
                ('asked_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), help_text='Slugs of `kinds.KINDS`, in their order', size=None)),
                ('labels', models.PositiveSmallIntegerField(help_text='Specimen labels of each order')),
                ('new_sheet', models.BooleanField(help_text='Each document begins on a new sheet')),
                ('query', models.JSONField(default=dict, help_text='The list as it was left')),
                ('state', models.TextField(choices=[('open', 'In progress'), ('done', 'Ready'), ('failed', 'Failed'), ('canceled', 'Canceled'), ('expired', 'Deleted')], default='open')),
                ('words', models.TextField(blank=True, default='', help_text='Why it failed')),
                ('orders', models.PositiveIntegerField()),
                ('total', models.PositiveIntegerField()),
                ('done', models.PositiveIntegerField(default=0)),
                ('failed', models.PositiveIntegerField(default=0)),
                ('size', models.PositiveBigIntegerField(default=0, help_text='Bytes of the parts so far')),
                ('pages', models.PositiveIntegerField(help_text='Of the merged PDF', null=True)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('lease_token', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('asked_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'open')), fields=['due_at'], name='print_job_open'), models.Index(fields=['asked_by', '-asked_at'], name='print_job_of_person'), models.Index(condition=models.Q(('expires_at__isnull', False)), fields=['expires_at'], name='print_job_expiring')],
                'constraints': [models.UniqueConstraint(fields=('asked_by', 'form_id'), name='print_job_of_a_form')],
            },
        ),
        migrations.CreateModel(
            name='PrintFile',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('content', backoffice.core.encryption.encrypted_fields.SealedBytes()),
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='file', to='orders.printjob')),
            ],
        ),
        migrations.CreateModel(
            name='PrintPart',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('position', models.PositiveIntegerField(help_text='Its place in the merged PDF')),
                ('order_id', models.UUIDField()),
                ('patient_id', models.UUIDField(null=True)),
                ('kind', models.TextField()),
                ('state', models.TextField(choices=[('waiting', 'Waiting'), ('done', 'Done'), ('failed', 'Left out')], default='waiting')),
                ('words', models.TextField(blank=True, default='')),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('content', backoffice.core.encryption.encrypted_fields.SealedBytes(null=True)),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='orders.printjob')),
            ],
            options={
                'indexes': [],
                'constraints': [models.UniqueConstraint(fields=('job', 'position'), name='print_part_place')],
            },
        ),
    ]
