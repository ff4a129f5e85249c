"""Tokens get a key id, scopes, an end, and a pepper around their digest."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils.crypto import salted_hmac

SCOPES = [
    "orders.view",
    "patients.view",
    "appointments.view",
    "results.view",
    "labs.view",
    "reports.view",
    "records.view",
    "system.view",
    "events.view",
    "commands.view",
]


def keep_earlier_tokens(apps, schema_editor):
    """They go on working as they were made: for all that their account may read, without an end.

    Their key id comes from their digest, as `tokens.py` finds it again from their text.
    """
    tokens = apps.get_model("backoffice", "ApiToken")
    for token in tokens.objects.all():
        plain = bytes(token.digest)
        token.key_id = f"old{plain.hex()[:9]}"
        token.scopes = SCOPES
        token.digest = salted_hmac(
            "backoffice.api.tokens", plain, secret=settings.SECRET_KEY, algorithm="sha256"
        ).digest()
        token.save(update_fields=["key_id", "scopes", "digest"])


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0008_people_who_work")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="key_id",
            field=models.CharField(max_length=12, null=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="name",
            field=models.CharField(
                blank=True, default="", help_text="What it is for", max_length=80
            ),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="scopes",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=40), default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="form_id",
            field=models.UUIDField(
                help_text="One per form shown: a second send makes no second token",
                null=True,
                unique=True,
            ),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="created_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="expires_at",
            field=models.DateTimeField(help_text="Null: good until it is revoked", null=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="revoked_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name="apitoken",
            name="last_used_at",
            field=models.DateTimeField(help_text="To the minute", null=True),
        ),
        # Not back: the digests that were there cannot be had from these.
        migrations.RunPython(keep_earlier_tokens, elidable=True),
        migrations.AlterField(
            model_name="apitoken",
            name="key_id",
            field=models.CharField(
                help_text="Names the token, and is no secret", max_length=12, unique=True
            ),
        ),
    ]
