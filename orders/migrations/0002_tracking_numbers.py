from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="order",
            name="outbound_tracking_number",
            field=models.TextField(help_text="Of the parcel to the patient", null=True),
        ),
        migrations.AddField(
            model_name="order",
            name="inbound_tracking_number",
            field=models.TextField(help_text="Of the parcel to the lab", null=True),
        ),
    ]
