from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sandbox", "0005_writes")]

    operations = [
        migrations.AlterField("userinfo", "gender", models.CharField(max_length=60)),
        migrations.AlterField("userinfo", "state", models.CharField(max_length=60)),
        migrations.AlterField("userinfo", "zip", models.CharField(max_length=20)),
        migrations.AlterField("payor", "state", models.CharField(max_length=60)),
        migrations.AlterField("payor", "zip", models.CharField(max_length=20)),
    ]
