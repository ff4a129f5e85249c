"""Names of lab tests, lab accounts, teams and markers beside their ids, as `Liver Screen (3f2a…)`.

The service names records by ids in its refusals ("Lab test <uuid> is not available for this lab
account").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from labs.models import LabAccount, LabTest, Marker, Team

_UUID: Final = re.compile(r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b")
_MARKERS: Final = re.compile(
    r"\bmarkers?(?:[ _]ids?)?[ :=\[(]{1,3}(\d{1,18}(?:, ?\d{1,18})*)\b", re.IGNORECASE
)
"""One marker or several: their numbers mean nothing without the word before them."""
_NUMBER: Final = re.compile(r"\d+")


def with_names(texts: Sequence[str]) -> list[str]:
    """Return the texts with the names from the mirror beside ids; unknown ids stay as they are."""
    records = _record_names({UUID(found) for text in texts for found in _UUID.findall(text)})
    numbers = {
        int(number)
        for text in texts
        for found in _MARKERS.findall(text)
        for number in _NUMBER.findall(found)
    }
    markers = _marker_names(numbers)

    def record(found: re.Match[str]) -> str:
        return _beside(records.get(UUID(found[0]), ""), found[0])

    def number(found: re.Match[str]) -> str:
        return _beside(markers.get(int(found[0]), ""), found[0])

    def listed(found: re.Match[str]) -> str:
        begin = found.start(1) - found.start()
        return found[0][:begin] + _NUMBER.sub(number, found[1])

    return [_UUID.sub(record, _MARKERS.sub(listed, text)) for text in texts]


def _beside(name: str, id_: str) -> str:
    return f"{name} ({id_})" if name else id_


def _record_names(ids: set[UUID]) -> dict[UUID, str]:
    if not ids:
        return {}
    return {
        **dict(Team.objects.filter(pk__in=ids).values_list("pk", "name")),
        **{account.pk: str(account) for account in LabAccount.objects.filter(pk__in=ids)},
        **dict(LabTest.objects.filter(pk__in=ids).values_list("pk", "name")),
    }


def _marker_names(numbers: set[int]) -> dict[int, str]:
    if not numbers:
        return {}
    return dict(Marker.objects.filter(pk__in=numbers).values_list("pk", "name"))
