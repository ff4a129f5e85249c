"""Who patients are of whom the service has no demographics: as their orders tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from backoffice.statements import array, cursor

_TOLD: Final = """
SELECT DISTINCT ON (user_id) user_id, patient_first_name, patient_last_name, patient_dob,
  patient_gender
FROM orders_order WHERE user_id = ANY(%s) AND patient_name <> ''
ORDER BY user_id, created_at DESC, id DESC
"""
"""An app above this one: read by its table."""


@dataclass(frozen=True, slots=True)
class ToldByOrder:
    """A person as their newest order with a name has them; an order says no more of them."""

    user_id: UUID
    first_name: str
    last_name: str
    dob: date | None
    gender: str


def told_by_orders(patients: Iterable[UUID]) -> dict[UUID, ToldByOrder]:
    """By patient id: one query, and none for nobody."""
    keys = list(patients)
    if not keys:
        return {}
    with cursor() as asked:
        asked.execute(_TOLD, [array(keys)])
        return {row[0]: ToldByOrder(*row) for row in asked.fetchall()}
