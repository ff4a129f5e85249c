"""Bodies of events for pages: complete, or with masked values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from django.utils.translation import gettext, ngettext

from backoffice.service.json_text import JsonObject
from webhooks.models import Event

MASK: Final = "•••"
MAX_DISPLAYED: Final = 100_000
"""Most characters of a body that a page shows."""
LISTED_ITEMS: Final = 2
"""Most items of a list that a masked body shows."""
UNMASKED_KEYS: Final = ("event_type", "team_id")
"""Members of the envelope that are never masked."""
UNREADABLE: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""Exceptions of JSON readers; invalid UTF-8 raises a ValueError."""
EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9998, 12, 31, tzinfo=UTC)
"""Moments outside these limits cannot be converted to every time zone."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A member with different values in two versions of a record."""

    name: str
    before: str
    after: str


class _Timestamps(msgspec.Struct):
    updated_at: Any = None
    created_at: Any = None
    events: msgspec.Raw = msgspec.Raw(b"[]")
    time_start: Any = None


class _Envelope(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _Step(msgspec.Struct):
    id: Any = None
    created_at: Any = None


def happened_at(body: bytes | memoryview | None) -> datetime | None:
    """Return the time of the change according to the event; None if it has no such time."""
    if body is None:
        return None
    try:
        data = msgspec.json.decode(msgspec.json.decode(body, type=_Envelope).data, type=_Timestamps)
    except UNREADABLE:
        return None
    for text in (data.updated_at, _last_step(data.events), data.created_at, data.time_start):
        moment = parse_instant(text)
        if moment is not None:
            return moment
    return None


def data_of(event: Event) -> JsonObject:
    """Return the `data` of an event; empty if the body is deleted or has no such object."""
    if event.body is None:
        return {}
    try:
        body = json.loads(bytes(event.body))
    except (ValueError, RecursionError):
        return {}
    data = body.get("data") if isinstance(body, dict) else None
    return data if isinstance(data, dict) else {}


def steps_in(event: Event) -> dict[int, str]:
    """Return the statuses in an order event, by the ids of their status events."""
    steps = data_of(event).get("events")
    if not isinstance(steps, list):
        return {}
    return {
        step["id"]: str(step.get("status", ""))
        for step in steps
        if isinstance(step, dict) and isinstance(step.get("id"), int)
    }


def display_body(event: Event, *, values: bool) -> tuple[str, bool]:
    """Return the body for a page, and whether it was truncated. Without `values` it is masked."""
    if event.body is None:
        return "", False
    raw = bytes(event.body)
    try:
        decoded = json.loads(raw)
        displayed = decoded if values else _structure(decoded)
        text = json.dumps(displayed, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = (
            raw.decode("utf-8", "replace")
            if values
            else (
                ngettext(
                    "%(count)s byte that is not JSON", "%(count)s bytes that are not JSON", len(raw)
                )
                % {"count": len(raw)}
            )
        )
    return replace_surrogates(text[:MAX_DISPLAYED]), len(text) > MAX_DISPLAYED


def _structure(body: object) -> object:
    masked = mask(body)
    if isinstance(body, dict) and isinstance(masked, dict):
        masked.update({key: body[key] for key in UNMASKED_KEYS if isinstance(body.get(key), str)})
    return masked


def mask(value: object) -> object:
    """Return the structure of a JSON value: names, no values, the first items of long lists."""
    if isinstance(value, dict):
        return {key: mask(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [mask(item) for item in value[:LISTED_ITEMS]]
        more = len(value) - LISTED_ITEMS
        return [*items, gettext("and %(count)s more") % {"count": more}] if more > 0 else items
    return None if value is None else MASK


def field_changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[FieldChange]:
    """Return the members that differ between two versions of a record."""
    names = {**before, **after}
    return [
        FieldChange(
            replace_surrogates(name),
            replace_surrogates(one_line(before.get(name))),
            replace_surrogates(one_line(after.get(name))),
        )
        for name in names
        if _are_different(before.get(name), after.get(name))
    ]


def one_line(value: object) -> str:
    """Return a value as one line, for a table of changes."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, list):
        is_nested = any(isinstance(item, dict | list) for item in value)
        if not is_nested:
            return ", ".join(map(str, value))
        return ngettext("%(count)s entry", "%(count)s entries", len(value)) % {"count": len(value)}
    if isinstance(value, dict):
        return ngettext("%(count)s field", "%(count)s fields", len(value)) % {"count": len(value)}
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _last_step(raw: msgspec.Raw) -> str | None:
    try:
        steps = msgspec.json.decode(raw, type=list[_Step])
    except UNREADABLE:
        return None
    moments = [step.created_at for step in steps if isinstance(step.created_at, str)]
    return max(moments, default=None)


def parse_instant(text: object) -> datetime | None:
    """Return a time in the service's format (ISO 8601 with an offset); None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return None
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if EARLIEST < moment < LATEST else None


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by question marks. JSON can contain them, UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def _are_different(before: object, after: object) -> bool:
    try:
        return bool(before != after)
    except RecursionError:
        return True
