"""What staff change in the back office itself, recorded with what stood there before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.http import HttpRequest

from backoffice import audit


def changed(
    request: HttpRequest,
    object_type: str,
    ids: Iterable[object],
    *,
    before: Mapping[str, str],
    after: Mapping[str, str],
    reason: str = "",
) -> None:
    """In the caller's transaction: both or none. Values that stay the same are left out."""
    told = [
        f"{name}: {before.get(name) or 'nothing'} → {value or 'nothing'}"
        for name, value in after.items()
        if before.get(name, "") != value
    ]
    audit.asked(request, object_type, ids, (), "; ".join([*told, *([reason] if reason else [])]))
