from django.db import migrations, models


class Migration(migrations.Migration):
    """A payor's address has access notes; a guarantor is optional for every relationship."""

    dependencies = [("sandbox", "0006_longer_places")]

    operations = [
        migrations.AddField(
            "payor", "access_notes", models.CharField(max_length=1000, null=True)
        ),
        migrations.RemoveConstraint("insurance", "insurance_guarantor_when_not_self"),
    ]
