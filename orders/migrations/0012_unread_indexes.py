from django.db import migrations


class Migration(migrations.Migration):
    """Indexes that were written with every row and read by nobody.

    Who asks for orders over their usual time asks for those on their way, which `exception_quiet`
    holds; visits are looked for by their `status`, never by the state of their last event.
    """

    dependencies = [("orders", "0011_exception_counts")]

    operations = [
        migrations.RemoveIndex("order", "order_over_usual"),
        migrations.RemoveIndex("appointment", "appointment_by_state"),
    ]
