"""Keep an order's JSON parts inline and uncompressed: a page of orders is read in one pass."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("sandbox", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE sandbox_order SET (toast_tuple_target = 8160, fillfactor = 95)",
            "ALTER TABLE sandbox_order RESET (toast_tuple_target, fillfactor)",
        )
    ]
