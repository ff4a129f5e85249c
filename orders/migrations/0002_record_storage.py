from django.db import migrations

from backoffice.storage import keep_records_out_of_line


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]

    operations = [keep_records_out_of_line("orders_order", "orders_appointment", "orders_result")]
