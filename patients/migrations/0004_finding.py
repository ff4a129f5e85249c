from django.contrib.postgres.indexes import OpClass
from django.db import migrations, models
from django.db.models.functions import Lower


class Migration(migrations.Migration):
    dependencies = [("patients", "0003_different_people")]

    operations = [
        migrations.RemoveIndex(model_name="demographics", name="demographics_email"),
        migrations.AddIndex(
            model_name="demographics",
            index=models.Index(
                OpClass(Lower("email"), name="text_pattern_ops"), name="demographics_email"
            ),
        ),
    ]
