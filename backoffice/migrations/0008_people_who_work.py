import django.contrib.postgres.fields
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0007_lists")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="theme",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="light, dark; empty: system",
                max_length=5,
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="density",
            field=models.CharField(
                db_default="default",
                default="default",
                help_text="compact, default, touch",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="single_keys",
            field=models.BooleanField(
                db_default=True, default=True, help_text="Shortcuts of one key are on"
            ),
        ),
        migrations.CreateModel(
            name="Change",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("xact", models.BigIntegerField()),
                ("topic", models.CharField(help_text="Name of the table", max_length=40)),
                ("rows", models.PositiveIntegerField()),
                (
                    "subjects",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), null=True, size=None
                    ),
                ),
                (
                    "at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={"indexes": [models.Index(fields=["xact"], name="change_since")]},
        ),
    ]
