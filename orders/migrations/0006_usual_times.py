from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("orders", "0005_unmatched_results")]

    operations = []
