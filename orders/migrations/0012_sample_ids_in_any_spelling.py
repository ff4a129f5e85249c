"""Search orders by a sample ID in any spelling."""

from django.contrib.postgres.indexes import OpClass
from django.db import migrations, models

from backoffice.core.identifiers import IdentifierKey
from backoffice.core.migration_indexes import ReplaceIndex


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('orders', '0011_unreadable_parts'),
    ]

    operations = [
        ReplaceIndex(
            'order',
            models.Index(OpClass(IdentifierKey('sample_id'), name='text_pattern_ops'), condition=models.Q(('sample_id__isnull', False)), name='order_sample'),
        ),
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL('DROP INDEX CONCURRENTLY IF EXISTS order_sample_beginning', '')],
            [migrations.RemoveIndex('order', 'order_sample_beginning')],
        ),
    ]
