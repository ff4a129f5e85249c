"""Groups of the roles in `access.py`, so that a new installation can hand them out."""

from django.db import migrations

ROLES = (
    'viewer',
    'front desk',
    'clinician',
    'lab coordinator',
    'lab admin',
    'auditor',
    'service account',
    'administrator',
)


def make(apps, schema_editor):
    Group = apps.get_model('auth', 'Group')
    for name in ROLES:
        Group.objects.get_or_create(name=name)


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('backoffice', '0001_initial'),
    ]

    operations = [
        # Going back leaves the groups: people are in them.
        migrations.RunPython(make, migrations.RunPython.noop),
    ]
