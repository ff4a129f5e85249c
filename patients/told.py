"""Who patients are: as the service knows them, or else as their orders tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from backoffice.models import AS_RECEIVED
from backoffice.statements import array, by_key, cursor
from patients.models import Demographics

NEWEST: Final = 500
"""Orders of a patient among which a name is looked for: nobody has more, but for those under whose
name a team keeps its stock."""
_TOLD: Final = f"""
SELECT told.* FROM unnest(%s::uuid[]) AS asked (id), LATERAL (
 SELECT user_id, patient_first_name, patient_last_name, patient_dob, patient_gender
 FROM (SELECT * FROM orders_order WHERE user_id = asked.id
  ORDER BY created_at DESC LIMIT {NEWEST}) AS newest
 WHERE patient_first_name <> '' AND patient_last_name <> ''
 ORDER BY created_at DESC LIMIT 1
) AS told
"""  # noqa: S608 - a number of ours
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


def people_of(patients: Iterable[UUID]) -> dict[UUID, Demographics | ToldByOrder]:
    """By patient id, without the records as received: one query, and one more for those of whom
    the service has no demographics."""
    keys = list(patients)
    known = by_key(Demographics, keys, but=AS_RECEIVED)
    return {**known, **told_by_orders(key for key in keys if key not in known)}
