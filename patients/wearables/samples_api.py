"""`/api/samples/`: single samples, ordered by series and time, decoded from chunks.

The service has no permanent id for samples. The `id` is the natural key joined by ":": user,
resource, provider, source type, kind of reading (empty for most) and timestamp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThanOrEqual
from rest_framework.request import Request

from backoffice.accounts.access import requires
from backoffice.api.errors import bad_request
from backoffice.api.resources import Resource, exactly
from patients.wearables.models import Chunk, Sample, Series, Source
from patients.wearables.sample_reader import COLUMNS, decode_samples

_CHUNKS_AT_ONCE: Final = 20
"""Number of chunks read at once: enough for a page of most series, and little memory for the
densest.
"""
_NAMES: Final = tuple(field.name for field in Sample._meta.concrete_fields)
_Position: TypeAlias = tuple[int, datetime]
"""Series and time of a sample."""
_ID: Final = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(.*):(\d{4}-[^:]*:.*)", re.S
)
"""User; resource, provider, source type and kind; time."""
_KEY: Final = ("user_id", "resource", "provider", "source_type", "kind")


@requires("patients.view")
class Samples(Resource):
    """One sample of a timeseries (wearables.md 4).

    `id` is `<user_id>:<resource>:<provider>:<source_type>:<kind>:<timestamp>`.
    """

    model = Sample
    patient = "user_id"
    mirrored = False
    columns = _NAMES[1:]
    filters = (
        exactly("user_id", UUID, "Only of this user of the service"),
        exactly("resource", str, "Such as heartrate or glucose"),
        exactly("provider", str, "Slug of the provider"),
    )

    def _rows(self) -> QuerySet[Any, tuple[Any, ...]]:
        return cast("QuerySet[Any, tuple[Any, ...]]", _SampleRows())

    def _after(self, cursor: str) -> object:
        position = _parse_position(str(super()._after(cursor)))
        if position is None:
            raise bad_request(
                "This cursor is not one that this list has given; start again without it."
            )
        return position

    def _items(self, request: Request, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        return super()._items(request, [row[1:] for row in rows])


@dataclass(frozen=True)
class _SampleRows:
    """The part of the QuerySet interface that a `Resource` uses.

    A row begins with its position, which is the cursor. The id cannot be a cursor, because its
    parts may have any character.
    """

    series: Q = field(default_factory=Q)
    after: _Position | None = None
    only: str | None = None

    def filter(self, *conditions: Q, pk__gt: _Position | None = None) -> _SampleRows:
        rows = replace(self, after=pk__gt or self.after)
        for condition in conditions:
            values: dict[str, Any] = dict(condition.children)  # type: ignore[arg-type]
            only = values.pop("id", None)
            rows = replace(rows, only=only or rows.only, series=rows.series & Q(**values))
        return rows

    def __getitem__(self, indexes: slice) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for item in self._items():
            position = f"{item['series']}:{_format_time(item['timestamp'])}"
            rows.append((position, *(item.get(name) for name in _NAMES)))
            if len(rows) == indexes.stop:
                break
        return rows

    def _items(self) -> Iterator[dict[str, Any]]:
        if self.only:
            if (position := _find_sample(self.only)) is not None:
                series, moment = position
                chunks = Chunk.objects.filter(series_id=series, day=moment.date())
                items = _decode_items(list(chunks.values(*COLUMNS)))
                yield from (item for item in items if item["timestamp"] == moment)
            return
        first, moment = self.after or (0, datetime.min.replace(tzinfo=UTC))
        chunks = Chunk.objects.order_by("series_id", "day")
        if self.series:
            chunks = chunks.filter(series_id__in=Series.objects.filter(self.series).values("pk"))
        for page in _pages(chunks, first, moment.date()):
            for item in _decode_items(page):
                if (item["series"], item["timestamp"]) > (first, moment):
                    yield item


def _pages(chunks: QuerySet[Chunk], first: int, day: date) -> Iterator[list[dict[str, Any]]]:
    """Yield the samples of these chunks from this series and day on, in lists."""
    while True:
        is_after = TupleGreaterThanOrEqual(("series_id", "day"), (first, day))
        page = list(chunks.filter(is_after).values(*COLUMNS)[:_CHUNKS_AT_ONCE])
        yield page
        if len(page) < _CHUNKS_AT_ONCE:
            return
        first, day = page[-1]["series_id"], page[-1]["day"] + timedelta(days=1)


def _decode_items(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the samples of chunks as items of the API."""
    series_by_id = Series.objects.in_bulk({row["series_id"] for row in rows})
    sources = Source.objects.in_bulk({pk for row in rows for pk in row["sources"] or ()} | {
        row["source"] for row in rows
    })  # fmt: skip
    for row in rows:
        series = series_by_id[row["series_id"]]
        key = {name: getattr(series, name) for name in _KEY}
        prefix = ":".join(map(str, key.values()))
        for sample in decode_samples(series, row):
            source = sources[sample["source"]]
            yield {
                "id": f"{prefix}:{_format_time(sample['timestamp'])}",
                **key,
                "app_id": source.app_id or None,
                "device_id": source.device_id or None,
                "sport": source.sport or None,
                "workout_id": source.workout_id or None,
                **sample,
                "series": series.pk,
            }


def _format_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _parse_position(text: str) -> _Position | None:
    """Return series and time of a cursor, or None if it is malformed."""
    series, _, moment = text.partition(":")
    at = _parse_time(moment)
    if at is None or not re.fullmatch(r"[0-9]{1,10}", series, re.ASCII):
        return None
    return int(series), at


def _find_sample(id: str) -> _Position | None:
    """Return series and time of the sample with this id, or None if there is no such series."""
    match = _ID.fullmatch(id)
    at = _parse_time(match[3]) if match else None
    if match is None or at is None:
        return None
    for series in Series.objects.filter(user_id=UUID(match[1])).order_by("pk"):
        if ":".join(getattr(series, name) for name in _KEY[1:]) == match[2]:
            return series.pk, at
    return None


def _parse_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
