import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

TROUBLE = {
    "lost": ("lost", "sample_error"),
    "stuck": ("lab_processing_blocked",),
    "delivery": (
        "problem_in_transit_customer",
        "problem_in_transit_lab",
        "failure_to_deliver_to_customer",
        "failure_to_deliver_to_lab",
    ),
    "draw": ("redraw_available", "appointment_cancelled"),
}


class Migration(migrations.Migration):
    dependencies = [
        ("orders", "0005_unmatched_results"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="UsualTime",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("low_level_status", models.TextField()),
                ("method", models.TextField()),
                (
                    "lab_slug",
                    models.TextField(
                        blank=True, default="", help_text="Empty: orders without a lab"
                    ),
                ),
                ("samples", models.PositiveIntegerField()),
                ("p50_seconds", models.PositiveIntegerField()),
                ("p90_seconds", models.PositiveIntegerField()),
                ("measured_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("low_level_status", "method", "lab_slug"), name="usual_time_once"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Handling",
            fields=[
                (
                    "order",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="handling",
                        serialize=False,
                        to="orders.order",
                    ),
                ),
                ("event_id", models.BigIntegerField(help_text="The order's latest event then")),
                ("outcome", models.CharField(max_length=20)),
                ("reason", models.TextField(blank=True, default="")),
                (
                    "until",
                    models.DateTimeField(
                        help_text="When it comes back; null: only by an event", null=True
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("until__isnull", False)),
                        fields=["until", "order"],
                        name="handling_comes_back",
                    )
                ]
            },
        ),
        migrations.AddField(
            model_name="order",
            name="quiet_at",
            field=models.DateTimeField(
                help_text="When it is over its usual time (`orders.usual`); null: never", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="order",
            index=models.Index(
                condition=models.Q(("quiet_at__isnull", False)),
                fields=["quiet_at", "id"],
                name="order_over_usual",
            ),
        ),
        *(
            migrations.AddIndex(
                model_name="order",
                index=models.Index(
                    condition=models.Q(("low_level_status__in", statuses)),
                    fields=["quiet_at", "id"],
                    name=f"exception_{name}",
                ),
            )
            for name, statuses in TROUBLE.items()
        ),
        migrations.AddIndex(
            model_name="order",
            index=models.Index(
                condition=models.Q(
                    ("bucket__in", ("preparing", "with-patient", "on-the-way", "at-lab")),
                    ("quiet_at__isnull", False),
                ),
                fields=["quiet_at", "id"],
                name="exception_quiet",
            ),
        ),
    ]
