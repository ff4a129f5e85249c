from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("patients", "0003_different_people")]

    operations = []
