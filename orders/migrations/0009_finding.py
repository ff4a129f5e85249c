from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("orders", "0008_today")]

    operations = []
