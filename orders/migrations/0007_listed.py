"""Indexes with more columns.

Indexes on columns that find few orders get the patient's name. The index on patients gets the state
of orders. Overdue orders get an index by lab.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from backoffice.core.migration_indexes import ReplaceIndex


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('orders', '0006_names'),
        ('patients', '0004_words_of_names'),
    ]

    operations = [
        ReplaceIndex(
            'order',
            models.Index(fields=['-created_at', '-id', 'updated_at', 'bucket', 'low_level_status', 'method', 'interpretation', 'lab_slug', 'names', 'quiet_at', 'activate_by'], include=('patient_name',), name='order_newest'),
        ),
        ReplaceIndex(
            'order',
            models.Index(fields=['-updated_at', '-id', 'created_at', 'bucket', 'low_level_status', 'method', 'interpretation', 'lab_slug', 'names', 'quiet_at', 'activate_by'], include=('patient_name',), name='order_last_updated'),
        ),
        ReplaceIndex(
            'order',
            models.Index(fields=['low_level_status', 'created_at', 'id', 'updated_at', 'bucket', 'method', 'interpretation', 'lab_slug', 'names', 'quiet_at', 'activate_by'], include=('patient_name',), name='order_by_status'),
        ),
        ReplaceIndex(
            'order',
            models.Index(fields=['user', '-created_at'], include=('id', 'bucket'), name='order_of_patient'),
        ),
        ReplaceIndex(
            'order',
            models.Index(condition=models.Q(('interpretation__isnull', False), models.Q(('interpretation', 'normal'), _negated=True)), fields=['interpretation', '-created_at', '-id', 'updated_at', 'bucket', 'low_level_status', 'method', 'lab_slug', 'names', 'quiet_at', 'activate_by'], include=('patient_name',), name='order_rare_interpretation'),
        ),
        migrations.RunSQL('DROP INDEX CONCURRENTLY IF EXISTS order_quiet_of_lab', ''),
        AddIndexConcurrently(
            'order',
            models.Index(condition=models.Q(('quiet_at__isnull', False)), fields=['lab_slug', 'id', 'created_at', 'updated_at', 'bucket', 'low_level_status', 'method', 'interpretation', 'names', 'quiet_at', 'activate_by'], name='order_quiet_of_lab'),
        ),
    ]
