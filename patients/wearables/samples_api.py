"""`/api/samples/`: samples one by one, ordered by series and time, out of their chunks.

Samples have no id of the service's that lasts; theirs is the natural key joined by ":", user,
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

from backoffice.api.errors import bad_request
from backoffice.api.resources import Resource, exactly
from backoffice.core.access import requires
from patients.wearables.models import Chunk, Sample, Series, Source
from patients.wearables.sample_reader import COLUMNS, decode_samples

_DAYS: Final = 20
"""Chunks read at once: enough for a page of most series, and little memory for the densest."""
_NAMES: Final = tuple(one.name for one in Sample._meta.concrete_fields)
_Place: TypeAlias = tuple[int, datetime]
"""Series and time of a sample."""
_ID: Final = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(.*):(\d{4}-[^:]*:.*)", re.S
)
"""User; resource, provider, source type and kind; time."""
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

    def _after(self, cursor: str) -> object:
        place = _place(str(super()._after(cursor)))
        if place is None:
            raise bad_request(
                "This cursor is not one that this list has given; start again without it."
            )
        return place

    def _items(self, request: Request, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        return super()._items(request, [row[1:] for row in rows])


@dataclass(frozen=True)
class _Rows:
    """Answers as much of a QuerySet's interface as a `Resource` asks for. A row begins with its
    place, which is what a cursor holds: ids are made of words that may have any sign in them."""

    series: Q = field(default_factory=Q)
    after: _Place | None = None
    only: str | None = None

    def filter(self, *conditions: Q, pk__gt: _Place | None = None) -> _Rows:
        rows = replace(self, after=pk__gt or self.after)
        for condition in conditions:
            wanted: dict[str, Any] = dict(condition.children)  # type: ignore[arg-type]
            only = wanted.pop("id", None)
            rows = replace(rows, only=only or rows.only, series=rows.series & Q(**wanted))
        return rows

    def __getitem__(self, wanted: slice) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for item in self._items():
            place = f"{item['series']}:{_written(item['timestamp'])}"
            found.append((place, *(item.get(name) for name in _NAMES)))
            if len(found) == wanted.stop:
                break
        return found

    def _items(self) -> Iterator[dict[str, Any]]:
        if self.only:
            if (begin := _identified(self.only)) is not None:
                series, moment = begin
                chunks = Chunk.objects.filter(series_id=series, day=moment.date())
                items = _flat(list(chunks.values(*COLUMNS)))
                yield from (item for item in items if item["timestamp"] == moment)
            return
        first, moment = self.after or (0, datetime.min.replace(tzinfo=UTC))
        chunks = Chunk.objects.order_by("series_id", "day")
        if self.series:
            chunks = chunks.filter(series_id__in=Series.objects.filter(self.series).values("pk"))
        for found in _pages(chunks, first, moment.date()):
            for item in _flat(found):
                if (item["series"], item["timestamp"]) > (first, moment):
                    yield item


def _pages(chunks: QuerySet[Chunk], first: int, day: date) -> Iterator[list[dict[str, Any]]]:
    """These chunks from this series and day on, some at a time."""
    while True:
        place = TupleGreaterThanOrEqual(("series_id", "day"), (first, day))
        found = list(chunks.filter(place).values(*COLUMNS)[:_DAYS])
        yield found
        if len(found) < _DAYS:
            return
        first, day = found[-1]["series_id"], found[-1]["day"] + timedelta(days=1)


def _flat(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    of = Series.objects.in_bulk({row["series_id"] for row in rows})
    sources = Source.objects.in_bulk({pk for row in rows for pk in row["sources"] or ()} | {
        row["source"] for row in rows
    })  # fmt: skip
    for row in rows:
        series = of[row["series_id"]]
        key = {name: getattr(series, name) for name in _KEY}
        beginning = ":".join(map(str, key.values()))
        for sample in decode_samples(series, row):
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


def _place(text: str) -> _Place | None:
    """Series and time in a cursor; None where it has none."""
    series, _, moment = text.partition(":")
    at = _moment(moment)
    if at is None or not re.fullmatch(r"[0-9]{1,10}", series, re.ASCII):
        return None
    return int(series), at


def _identified(id: str) -> _Place | None:
    """Series and time of the sample of this id; None where there is no such series."""
    found = _ID.fullmatch(id)
    at = _moment(found[3]) if found else None
    if found is None or at is None:
        return None
    for series in Series.objects.filter(user_id=UUID(found[1])).order_by("pk"):
        if ":".join(getattr(series, name) for name in _KEY[1:]) == found[2]:
            return series.pk, at
    return None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
