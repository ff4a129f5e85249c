from django.contrib.postgres.indexes import OpClass
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from backoffice.core.identifiers import IdentifierKey


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("orders", "0002_tracking_numbers")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                OpClass(IdentifierKey("outbound_tracking_number"), name="text_pattern_ops"),
                condition=models.Q(("outbound_tracking_number__isnull", False)),
                name="order_outbound_parcel",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                OpClass(IdentifierKey("inbound_tracking_number"), name="text_pattern_ops"),
                condition=models.Q(("inbound_tracking_number__isnull", False)),
                name="order_inbound_parcel",
            ),
        ),
    ]
