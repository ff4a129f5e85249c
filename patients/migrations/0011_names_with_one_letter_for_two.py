"""Search names with one letter for two as well: Muller finds Mueller.

Only keys of names with such letters are computed again, a few thousand rows at a time.
"""

from __future__ import annotations

from typing import Any, Final

from django.db import migrations

from patients.names import with_contracted

AT_ONCE: Final = 2_000
TWO_FOR_ONE: Final = "[ou]e|ae|aa"


def rebuild_keys(apps: Any, schema_editor: Any) -> None:
    people = apps.get_model("patients", "Demographics").objects
    named = people.using(schema_editor.connection.alias).filter(name_key__regex=TWO_FOR_ONE)
    rows = named.order_by("pk").only("pk", "name_key")
    last = None
    while step := list((rows.filter(pk__gt=last) if last else rows)[:AT_ONCE]):
        last, changed = step[-1].pk, []
        for row in step:
            key = with_contracted(row.name_key)
            if key != row.name_key:
                row.name_key = key
                changed.append(row)
        people.using(schema_editor.connection.alias).bulk_update(changed, ["name_key"])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("patients", "0010_identity_of_patients_on_record")]

    operations = [migrations.RunPython(rebuild_keys, migrations.RunPython.noop)]
