"""`/api/samples/`: samples one by one, ordered by series and time, out of their chunks.

Samples have no id of the service's that lasts; theirs is the natural key joined by ":", user,
resource, provider, source type, kind of reading (empty for most) and timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThanOrEqual

from backoffice.access import requires
from backoffice.api import Resource, exactly
from patients.wearables.models import Chunk, Sample, Series, Source
from patients.wearables.reading import COLUMNS, samples_of

_DAYS: Final = 20
"""Chunks read at once: enough for a page of most series, and little memory for the densest."""
_NAMES: Final = tuple(one.name for one in Sample._meta.concrete_fields)
_KEY: Final = ("user_id", "resource", "provider", "source_type", "kind")


@requires("patients.view")
class Samples(Resource):
    """One sample of a timeseries (wearables.md 4); `id` is
    `<user_id>:<resource>:<provider>:<source_type>:<kind>:<timestamp>`."""

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
        return cast("QuerySet[Any, tuple[Any, ...]]", _Rows())


@dataclass(frozen=True)
class _Rows:
    """Answers as much of a QuerySet's interface as a `Resource` asks for."""

    series: Q = field(default_factory=Q)
    after: str | None = None
    only: str | None = None

    def filter(self, *conditions: Q, pk__gt: str | None = None) -> _Rows:
        rows = replace(self, after=pk__gt or self.after)
        for condition in conditions:
            wanted: dict[str, Any] = dict(condition.children)  # type: ignore[arg-type]
            only = wanted.pop("id", None)
            rows = replace(rows, only=only or rows.only, series=rows.series & Q(**wanted))
        return rows

    def __getitem__(self, wanted: slice) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for item in self._items():
            found.append(tuple(item.get(name) for name in _NAMES))
            if len(found) == wanted.stop:
                break
        return found

    def _items(self) -> Iterator[dict[str, Any]]:
        begin = _place(self.after or self.only)
        if begin is None and (self.after or self.only):
            return
        first, moment = begin or (0, datetime.min.replace(tzinfo=UTC))
        if self.only:
            chunks = Chunk.objects.filter(series_id=first, day=moment.date())
            items = _flat({first: Series.objects.get(pk=first)}, list(chunks.values(*COLUMNS)))
            yield from (item for item in items if item["timestamp"] == moment)
            return
        series = Series.objects.filter(self.series, pk__gte=first).in_bulk()
        for chunk in _chunks(sorted(series), first, moment.date()):
            for item in _flat(series, chunk):
                if (item["series"], item["timestamp"]) > (first, moment):
                    yield item


def _chunks(series: list[int], first: int, day: date) -> Iterator[list[dict[str, Any]]]:
    """Chunks of these series by series and day, some at a time."""
    while True:
        place = TupleGreaterThanOrEqual(("series_id", "day"), (first, day))
        rows = Chunk.objects.filter(place, series_id__in=series).order_by("series_id", "day")
        found = list(rows.values(*COLUMNS)[:_DAYS])
        yield found
        if len(found) < _DAYS:
            return
        first, day = found[-1]["series_id"], found[-1]["day"] + timedelta(days=1)


def _flat(of: dict[int, Series], rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    sources = Source.objects.in_bulk({pk for row in rows for pk in row["sources"] or ()} | {
        row["source"] for row in rows
    })  # fmt: skip
    for row in rows:
        series = of[row["series_id"]]
        key = {name: getattr(series, name) for name in _KEY}
        beginning = ":".join(map(str, key.values()))
        for sample in samples_of(series, row):
            source = sources[sample["source"]]
            yield {
                "id": f"{beginning}:{_written(sample['timestamp'])}",
                **key,
                "app_id": source.app_id or None,
                "device_id": source.device_id or None,
                "sport": source.sport or None,
                "workout_id": source.workout_id or None,
                **sample,
                "series": series.pk,
            }


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _place(id: str | None) -> tuple[int, datetime] | None:
    """Series and time of the sample of this id; None where there is no such series."""
    parts = (id or "").split(":", len(_KEY))
    if len(parts) <= len(_KEY) or "\x00" in parts[-1]:
        return None
    try:
        moment = datetime.fromisoformat(parts.pop().replace("Z", "+00:00"))
        UUID(parts[0])
    except ValueError:
        return None
    series = Series.objects.filter(**dict(zip(_KEY, parts, strict=True))).first()
    if series is None or moment.tzinfo is None:
        return None
    return series.pk, moment.astimezone(UTC)
