"""The collection time for labels of orders without a known one: a nullable column."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('orders', '0024_names_with_one_letter_for_two'),
    ]

    operations = [
        migrations.AddField(
            model_name='printjob',
            name='collected_at',
            field=models.DateTimeField(help_text='On the labels of orders of which no collection time is known', null=True),
        ),
    ]
