from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("orders", "0006_usual_times")]

    operations = []
