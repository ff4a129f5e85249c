from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('orders', '0001_initial'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='unmatchedresult',
            index=models.Index(condition=models.Q(('status__in', ('resolved', 'matched'))), fields=['created_at', 'id', 'lab_slug', 'decision_code', 'interpretation', 'missing_since'], name='unmatched_decided_received'),
        ),
        AddIndexConcurrently(
            model_name='unmatchedresult',
            index=models.Index(condition=models.Q(('status__in', ('resolved', 'matched'))), fields=['reviewed_at', 'id', 'created_at', 'lab_slug', 'decision_code', 'interpretation', 'missing_since'], name='unmatched_decided_reviewed'),
        ),
    ]
