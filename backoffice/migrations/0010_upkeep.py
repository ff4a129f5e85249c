import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("backoffice", "0009_api_tokens"),
    ]

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("queue", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("worker", models.CharField(max_length=100)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="commandrecord",
            name="request_id",
            field=models.CharField(
                db_default="",
                default="",
                help_text="Of the page's request that asked",
                max_length=32,
            ),
        ),
        migrations.CreateModel(
            name="Backup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("seconds", models.FloatField()),
                ("bytes", models.BigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["-at"], name="backup_latest")],
            },
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "since",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("restored_to", models.DateTimeField()),
                ("released_at", models.DateTimeField(null=True)),
                (
                    "released_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        models.Value(1), condition=models.Q(("released_at", None)), name="one_hold"
                    )
                ],
            },
        ),
    ]
