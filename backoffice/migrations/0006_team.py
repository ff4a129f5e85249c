from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0005_command_readers")]

    operations = []
