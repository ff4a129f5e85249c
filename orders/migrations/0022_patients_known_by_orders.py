"""Identify existing patients by their orders, a few hundred at a time, each step by itself.

Phone numbers and emails are read only from the records of the orders that identify a patient. Those
of other orders are read when the orders change, because they identify nobody.
"""

from __future__ import annotations

import json
from typing import Any, Final

from django.db import migrations

from backoffice.service import json_text
from patients.names import plain_key

AT_ONCE: Final = 500
STEP: Final = """
SELECT max(id::text)::uuid, array_agg(id) FROM (
  SELECT id FROM patients_patient WHERE id > %s AND (fields_from_order <> '{}' OR name_key = ''
    OR email = '' OR phone_digits = '' OR gender = '' OR dob IS NULL)
  ORDER BY id LIMIT %s
) AS step
"""
NAMED: Final = """
SELECT id, patient_name, recipient_name, record FROM orders_order
WHERE user_id = ANY(%s) AND patient_name <> '' AND patient_phone = '' AND patient_email = ''
"""
REACHED: Final = """
UPDATE orders_order SET patient_phone = known.phone, patient_email = known.email
FROM unnest(%s::uuid[], %s::text[], %s::text[]) AS known (id, phone, email)
WHERE orders_order.id = known.id
"""


def fill(apps: Any, schema_editor: Any) -> None:
    last, users = "00000000-0000-0000-0000-000000000000", []
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(STEP, [last, AT_ONCE])
            last, users = cursor.fetchone()
            if last is None:
                return
            cursor.execute(NAMED, [users])
            reached = [(row[0], *_reached(*row[1:])) for row in cursor.fetchall()]
            reached = [row for row in reached if row[1] or row[2]]
            if reached:
                cursor.execute(REACHED, [list(column) for column in zip(*reached, strict=True)])
            cursor.execute("SELECT orders_identify_patients(%s)", [users])


def _reached(name: str, recipient: str, record: str) -> tuple[str, str]:
    """Return phone and email of the patient, as `orders.sync.orders` reads them."""
    if "\\u" in record:
        record = json_text.replace_unstorable(record.encode()).decode()
    order = json.loads(record)
    patient, address = order.get("patient_details"), order.get("patient_address")
    phone = _text(patient, "phone_number")
    if not recipient or plain_key(recipient) == plain_key(name):
        phone = phone or _text(address, "phone_number")
    return phone, _text(patient, "email")


def _text(part: Any, name: str) -> str:
    found = part.get(name) if isinstance(part, dict) else None
    return found if isinstance(found, str) else ""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("orders", "0021_orders_identify_patients")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
