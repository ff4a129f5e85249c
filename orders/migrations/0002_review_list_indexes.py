from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('orders', '0001_initial'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='review',
            index=models.Index(fields=['-since', '-order', 'lab_slug', 'rank', 'signer'], name='review_newest'),
        ),
        AddIndexConcurrently(
            model_name='review',
            index=models.Index(fields=['rank', 'since', 'order', 'lab_slug', 'signer'], name='review_by_urgency'),
        ),
        AddIndexConcurrently(
            model_name='review',
            index=models.Index(fields=['lab_slug', '-since', '-order'], name='review_of_lab'),
        ),
        AddIndexConcurrently(
            model_name='review',
            index=models.Index(fields=['signer', '-since', '-order'], name='review_signed_by'),
        ),
    ]
