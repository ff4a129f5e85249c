"""`/api/samples/`: single samples, ordered by series and time, decoded from chunks.

The service has no permanent id for samples. The `id` is the natural key joined by ":": user,
resource, provider, source type, kind of reading (empty for most) and timestamp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any, Final, TypeAlias
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThanOrEqual
from django.http import Http404

from backoffice.accounts.access import requires
from backoffice.api.filters import FilterSet, TextFilter
from backoffice.api.pagination import CursorPagination
from backoffice.api.serializers import ColumnSerializer
from backoffice.api.viewsets import ResourceViewSet
from backoffice.pages.lists.filters import UUIDFilter
from patients.wearables.models import Chunk, Sample, Series, Source
from patients.wearables.sample_reader import COLUMNS, decode_samples

_CHUNKS_AT_ONCE: Final = 20
"""Number of chunks read at once: enough for a page of most series, and little memory for the
densest.
"""
_Position: TypeAlias = tuple[int, datetime]
"""Series and time of a sample."""
_ID: Final = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(.*):(\d{4}-[^:]*:.*)", re.S
)
"""User; resource, provider, source type and kind; time."""
_KEY: Final = ("user_id", "resource", "provider", "source_type", "kind")


class SampleSerializer(ColumnSerializer):
    class Meta:
        model = Sample
        fields = tuple(field.name for field in Sample._meta.concrete_fields)

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        return {name: instance.get(name) for name in self.Meta.fields}


class SampleFilterSet(FilterSet):
    """Filters of the series, which have the samples."""

    user_id = UUIDFilter(help_text="Only of this user of the service")
    resource = TextFilter(help_text="Such as heartrate or glucose")
    provider = TextFilter(help_text="Slug of the provider")


class SamplePagination(CursorPagination):
    """Pages of the samples of a queryset of series.

    A position is the series and time of a sample. It cannot be the id, because its parts may have
    any character.
    """

    def get_label(self, queryset: QuerySet[Any]) -> str:
        return Sample._meta.label_lower

    def get_position(self, row: dict[str, Any]) -> str:
        return f"{row['series']}:{_format_time(row['timestamp'])}"

    def parse_position(self, queryset: QuerySet[Any], position: str) -> _Position:
        series, _, moment = position.partition(":")
        at = _parse_time(moment)
        if at is None or not re.fullmatch(r"[0-9]{1,10}", series, re.ASCII):
            raise ValueError(position)
        return int(series), at

    def read_rows(
        self, queryset: QuerySet[Any], after: _Position | None, count: int
    ) -> list[dict[str, Any]]:
        first, moment = after or (0, datetime.min.replace(tzinfo=UTC))
        chunks = Chunk.objects.order_by("series_id", "day")
        if queryset.query.where:
            chunks = chunks.filter(series_id__in=queryset.values("pk"))
        samples = (
            sample
            for page in _pages(chunks, first, moment.date())
            for sample in _decode_samples(page)
            if (sample["series"], sample["timestamp"]) > (first, moment)
        )
        return list(islice(samples, count))


@requires("patients.view")
class SampleViewSet(ResourceViewSet):
    """One sample of a timeseries (wearables.md 4).

    `id` is `<user_id>:<resource>:<provider>:<source_type>:<kind>:<timestamp>`.
    """

    queryset = Series.objects.all()
    serializer_class = SampleSerializer
    filterset_class = SampleFilterSet
    pagination_class = SamplePagination
    patient_field = "user_id"

    def get_object(self) -> dict[str, Any]:
        position = _find_sample(self.kwargs["id"])
        if position is not None:
            series, moment = position
            chunks = Chunk.objects.filter(series_id=series, day=moment.date())
            for sample in _decode_samples(list(chunks.values(*COLUMNS))):
                if sample["timestamp"] == moment:
                    return sample
        raise Http404


def _pages(chunks: QuerySet[Chunk], first: int, day: date) -> Iterator[list[dict[str, Any]]]:
    """Yield the samples of these chunks from this series and day on, in lists."""
    while True:
        is_after = TupleGreaterThanOrEqual(("series_id", "day"), (first, day))
        page = list(chunks.filter(is_after).values(*COLUMNS)[:_CHUNKS_AT_ONCE])
        yield page
        if len(page) < _CHUNKS_AT_ONCE:
            return
        first, day = page[-1]["series_id"], page[-1]["day"] + timedelta(days=1)


def _decode_samples(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
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
