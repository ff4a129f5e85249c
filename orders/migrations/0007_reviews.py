import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from orders.migrations import _standing


class Migration(migrations.Migration):
    dependencies = [
        ("orders", "0006_usual_times"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReviewTally",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("counted", models.TextField()),
                ("delta", models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="ResultVersion",
            fields=[
                ("pk", models.CompositePrimaryKey("order_id", "number", blank=True, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("received_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("kind", models.TextField(help_text="partial, final or corrected")),
                ("interpretation", models.TextField(null=True)),
                ("returned", models.PositiveIntegerField(default=0)),
                ("missing", models.PositiveIntegerField(default=0)),
                ("critical", models.JSONField(default=list)),
                ("critical_since", models.PositiveIntegerField(null=True)),
                ("digest", models.BinaryField(help_text="Of what tells two versions apart")),
                ("content", models.JSONField(help_text="Head and lines, without what was not given")),
                ("order", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="orders.order")),
            ],
        ),
        migrations.CreateModel(
            name="CriticalAcknowledgement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text="Stamped by the database")),
                ("values", models.JSONField(default=list)),
                ("by", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("order", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="orders.order")),
            ],
            options={
                "indexes": [models.Index(fields=["order", "at"], name="acknowledged_of_order")],
            },
        ),
        migrations.CreateModel(
            name="CriticalCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text="Stamped by the database")),
                ("values", models.JSONField(default=list)),
                ("recipient", models.TextField()),
                ("outcome", models.TextField()),
                ("note", models.TextField(default="")),
                ("next_attempt_at", models.DateTimeField(null=True)),
                ("made_by_service_network", models.BooleanField(default=False)),
                ("source", models.TextField(default="", help_text="How we know of a call we did not make")),
                ("by", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("order", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="orders.order")),
            ],
            options={
                "indexes": [models.Index(fields=["order", "at"], name="critical_calls_of_order")],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(models.Q(("outcome", "not_reached"), _negated=True), ("next_attempt_at__isnull", False), _connector="OR"), name="not_reached_is_tried_again"),
                    models.CheckConstraint(condition=models.Q(("outcome__in", ["confirmed_read_back", "reached_no_read_back", "not_reached"])), name="call_has_an_outcome"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Delegation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("until", models.DateTimeField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("by", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("order", models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="orders.order")),
                ("to", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "indexes": [models.Index(fields=["to", "until"], name="delegation_to")],
            },
        ),
        migrations.CreateModel(
            name="Review",
            fields=[
                ("order", models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name="review", serialize=False, to="orders.order")),
                ("lab_slug", models.TextField(null=True)),
                ("version", models.IntegerField(default=-1)),
                ("kind", models.TextField(default="")),
                ("rank", models.SmallIntegerField(default=0, help_text="Place in `RANKS`")),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text="Receipt of the newest version")),
                ("signed", models.IntegerField(default=-1)),
                ("seen", models.IntegerField(default=-1, help_text="Partial version that was acknowledged")),
                ("critical_since", models.IntegerField(null=True)),
                ("acknowledged", models.IntegerField(default=-1)),
                ("called", models.IntegerField(default=-1, help_text="Version somebody was reached about")),
                ("next_call_at", models.DateTimeField(null=True)),
                ("signer", models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("user", models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name="reviews", to="patients.patient")),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("version__gt", models.F("signed"))), fields=["rank", "since", "order"], name="review_queue"),
                    models.Index(condition=models.Q(("version__gt", models.F("signed"))), fields=["lab_slug", "rank", "since", "order"], name="review_queue_of_lab"),
                    models.Index(fields=["user", "-since"], name="review_of_patient"),
                    models.Index(condition=models.Q(("version__gt", models.F("signed")), ("signer__isnull", False)), fields=["signer", "rank", "since"], name="review_again"),
                    models.Index(condition=models.Q(("critical_since__isnull", False), models.Q(("acknowledged__lt", models.F("critical_since")), ("called__lt", models.F("critical_since")), _connector="OR")), fields=["since"], name="review_open_critical"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Signature",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField()),
                ("kind", models.TextField(help_text="signed, acknowledged or undone")),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text="Stamped by the database")),
                ("note", models.TextField(default="")),
                ("tells", models.TextField(default="", help_text="Who will tell the patient")),
                ("by", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("delegated_by", models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("order", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="orders.order")),
                ("undoes", models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name="undone", to="orders.signature")),
            ],
            options={
                "indexes": [models.Index(fields=["order", "version"], name="signature_of_order")],
                "constraints": [models.CheckConstraint(condition=models.Q(models.Q(("kind", "undone"), ("undoes__isnull", False)), models.Q(("kind__in", ["signed", "acknowledged"]), ("undoes__isnull", True)), _connector="OR"), name="undone_names_what")],
            },
        ),
        migrations.AddIndex(
            model_name="resultmarker",
            index=models.Index(fields=["result", "failure_type"], condition=models.Q(is_missing=True), name="marker_missing"),
        ),
        migrations.RunSQL(_standing.forwards(), _standing.BACKWARDS),
    ]
