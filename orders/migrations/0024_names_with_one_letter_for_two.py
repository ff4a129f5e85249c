"""Search names on orders with one letter for two as well: Muller finds Mueller.

Only keys of names with such letters are computed again, a few thousand orders at a time. Triggers
add the words of the new keys, and the names of patients that only orders name.
"""

from __future__ import annotations

from typing import Any, Final

from django.db import migrations
from django.db.models import Q

from patients.names import with_contracted

AT_ONCE: Final = 2_000
TWO_FOR_ONE: Final = "[ou]e|ae|aa"
COLUMNS: Final = ("patient_name", "recipient_name")


def rebuild_keys(apps: Any, schema_editor: Any) -> None:
    orders = apps.get_model("orders", "Order").objects.using(schema_editor.connection.alias)
    of_such = Q(patient_name__regex=TWO_FOR_ONE) | Q(recipient_name__regex=TWO_FOR_ONE)
    rows = orders.filter(of_such).order_by("pk").only("pk", *COLUMNS)
    last = None
    while step := list((rows.filter(pk__gt=last) if last else rows)[:AT_ONCE]):
        last, changed = step[-1].pk, []
        for row in step:
            keys = [with_contracted(getattr(row, name)) for name in COLUMNS]
            if keys != [row.patient_name, row.recipient_name]:
                row.patient_name, row.recipient_name = keys
                changed.append(row)
        orders.bulk_update(changed, COLUMNS)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("orders", "0023_print_jobs"),
        ("patients", "0011_names_with_one_letter_for_two"),
    ]

    operations = [migrations.RunPython(rebuild_keys, migrations.RunPython.noop)]
