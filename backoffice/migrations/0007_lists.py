from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0006_team")]

    operations = []
