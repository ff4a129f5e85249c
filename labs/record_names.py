"""Add names of lab tests, lab accounts, teams and markers to ids: `Liver Screen (3f2a…)`.

The service's error messages have only ids ("Lab test <uuid> is not available for this lab
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
"""One or several marker ids. They are plain numbers, so the word "marker" must precede them."""
_NUMBER: Final = re.compile(r"\d+")


def with_names(texts: Sequence[str]) -> list[str]:
    """Return the texts with names from the mirror added to ids. Unknown ids do not change."""
    records = _record_names({UUID(matched) for text in texts for matched in _UUID.findall(text)})
    numbers = {
        int(number)
        for text in texts
        for matched in _MARKERS.findall(text)
        for number in _NUMBER.findall(matched)
    }
    markers = _marker_names(numbers)

    def record(match: re.Match[str]) -> str:
        return _with_id(records.get(UUID(match[0]), ""), match[0])

    def number(match: re.Match[str]) -> str:
        return _with_id(markers.get(int(match[0]), ""), match[0])

    def marker_list(match: re.Match[str]) -> str:
        begin = match.start(1) - match.start()
        return match[0][:begin] + _NUMBER.sub(number, match[1])

    return [_UUID.sub(record, _MARKERS.sub(marker_list, text)) for text in texts]


def _with_id(name: str, id_: str) -> str:
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
