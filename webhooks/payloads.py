"""Bodies of events as staff may see them: whole, or their structure with the values hidden."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from webhooks.models import Event

MASK: Final = "•••"
MAX_DISPLAYED: Final = 100_000
"""Characters of a body that a page shows."""
LISTED_ITEMS: Final = 2
"""Items of a list that a masked body shows: the others look alike."""
UNMASKED_KEYS: Final = ("event_type", "team_id")
"""Members of the envelope that the log shows anyhow."""
UNREADABLE: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""What readers of JSON raise; letters that are no UTF-8 are a ValueError of their own."""
EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9998, 12, 31, tzinfo=UTC)
"""Beyond these a moment cannot be shown in every zone."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One member that two versions of a record say differently."""

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
    """When, by its own words, that happened which the event tells of; None when it does not say."""
    if body is None:
        return None
    try:
        said = msgspec.json.decode(msgspec.json.decode(body, type=_Envelope).data, type=_Timestamps)
    except UNREADABLE:
        return None
    for text in (said.updated_at, _last_step(said.events), said.created_at, said.time_start):
        moment = parse_instant(text)
        if moment is not None:
            return moment
    return None


def data_of(event: Event) -> dict[str, Any]:
    """The `data` of an event; empty for a body that is no such JSON, or forgotten."""
    if event.body is None:
        return {}
    try:
        found = json.loads(bytes(event.body))
    except (ValueError, RecursionError):
        return {}
    data = found.get("data") if isinstance(found, dict) else None
    return data if isinstance(data, dict) else {}


def steps_in(event: Event) -> dict[int, str]:
    """Ids of the status events an order event carries, with their statuses."""
    steps = data_of(event).get("events")
    if not isinstance(steps, list):
        return {}
    return {
        step["id"]: str(step.get("status", ""))
        for step in steps
        if isinstance(step, dict) and isinstance(step.get("id"), int)
    }


def display_body(event: Event, *, values: bool) -> tuple[str, bool]:
    """The body for a page, and whether it was cut. Without `values` only its structure."""
    if event.body is None:
        return "", False
    raw = bytes(event.body)
    try:
        found = json.loads(raw)
        seen = found if values else _structure(found)
        text = json.dumps(seen, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = raw.decode("utf-8", "replace") if values else f"{len(raw)} bytes that are no JSON"
    return replace_surrogates(text[:MAX_DISPLAYED]), len(text) > MAX_DISPLAYED


def _structure(body: Any) -> Any:
    hidden = mask(body)
    if isinstance(body, dict):
        hidden.update({key: body[key] for key in UNMASKED_KEYS if isinstance(body.get(key), str)})
    return hidden


def mask(value: Any) -> Any:
    """The structure of a JSON value: names stay, values go, long lists show how they begin."""
    if isinstance(value, dict):
        return {key: mask(found) for key, found in value.items()}
    if isinstance(value, list):
        kept = [mask(found) for found in value[:LISTED_ITEMS]]
        more = len(value) - LISTED_ITEMS
        return [*kept, f"and {more} more"] if more > 0 else kept
    return None if value is None else MASK


def field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """What two records say differently, member by member."""
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


def one_line(value: Any) -> str:
    """A value in one line, for a table of changes."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, list):
        return f"{len(value)} entries" if any(_has_nested(value)) else ", ".join(map(str, value))
    if isinstance(value, dict):
        return f"{len(value)} members"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _has_nested(values: Iterable[Any]) -> Iterable[bool]:
    return (isinstance(value, dict | list) for value in values)


def _last_step(raw: msgspec.Raw) -> Any:
    try:
        steps = msgspec.json.decode(raw, type=list[_Step])
    except UNREADABLE:
        return None
    moments = [step.created_at for step in steps if isinstance(step.created_at, str)]
    return max(moments, default=None)


def parse_instant(text: Any) -> datetime | None:
    """An instant as the service writes it; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return None
        moment = moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return moment if EARLIEST < moment < LATEST else None


def replace_surrogates(text: str) -> str:
    """Halves of surrogate pairs, which JSON can spell and UTF-8 cannot, as question marks."""
    return text.encode("utf-8", "replace").decode()


def _are_different(one: Any, other: Any) -> bool:
    try:
        return bool(one != other)
    except RecursionError:
        return True
