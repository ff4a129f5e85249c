from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('backoffice', '0002_kept')]

    operations = [
        migrations.AddIndex(
            model_name='commandrecord',
            index=models.Index(
                fields=['finished_at'],
                condition=models.Q(('state', 'refused')),
                name='command_refused_lately',
            ),
        ),
    ]
