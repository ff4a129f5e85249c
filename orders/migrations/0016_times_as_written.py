from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('orders', '0015_index_of_odd_interpretations'),
    ]

    operations = [
        migrations.AddField(
            model_name='resultmarker',
            name='timestamp_written',
            field=models.TextField(help_text='As received, where it has no offset: never to be converted', null=True),
        ),
        migrations.AlterField(
            model_name='resultmarker',
            name='timestamp',
            field=models.DateTimeField(help_text='Where it came with an offset', null=True),
        ),
    ]
