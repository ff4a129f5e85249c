from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("orders", "0007_reviews")]

    operations = []
