from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0007_lists")]

    operations = []
