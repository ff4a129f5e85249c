"""Samples can be distributed over machines by series, as `docs/scale.md` describes.

The tests compare its rules on keys and statements with the database catalog and captured queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from patients.wearables.charts import newest_samples, sample_charts
from patients.wearables.handlers import handle_samples
from patients.wearables.measures import sample_measure
from patients.wearables.models import Series
from patients.wearables.recency import newest_data_by_provider
from patients.wearables.samples_api import SamplePagination
from patients.wearables.spans import DAY, Span
from tests.api.rows import patient, uid
from tests.wearables.test_samples import sample, samples_event

pytestmark = pytest.mark.django_db

DISTRIBUTED = {"wearables_chunk": "series_id"}
"""Tables that grow with every sample, and their distribution columns."""
ON_ONE_NODE = {
    "wearables_historicalpull",
    "wearables_series",
    "wearables_source",
    "wearables_summary",
    "wearables_workoutstream",
}
UNIQUE_INDEXES = """
SELECT coalesce(parent.relname, own.relname), own.relname, index.relname,
 array(SELECT attname FROM pg_attribute WHERE attrelid = own.oid AND attnum = ANY(i.indkey))
FROM pg_index AS i JOIN pg_class AS own ON own.oid = i.indrelid
JOIN pg_class AS index ON index.oid = i.indexrelid
LEFT JOIN pg_inherits ON inhrelid = own.oid LEFT JOIN pg_class AS parent ON parent.oid = inhparent
WHERE i.indisunique AND own.relname LIKE 'wearables\\_%%' AND own.relkind IN ('r', 'p')
"""
FOREIGN_KEYS = """
SELECT conname FROM pg_constraint WHERE contype = 'f'
AND ARRAY['wearables_chunk'::regclass] && ARRAY[conrelid::regclass, confrelid::regclass]
"""
BY_SERIES = re.compile(r"series_id = |(USING|ON CONFLICT) \(series_id, day\)")
"""Matches statements that select rows by series."""


@pytest.fixture
def months() -> None:
    """Store samples of two months, which creates their partitions."""
    patient(1).save()
    _store_samples(1, *(datetime(2026, month, 1, 8, tzinfo=UTC) for month in (3, 4)))


def _store_samples(number: int, *moments: datetime) -> None:
    handle_samples(
        [samples_event(number, "heartrate", [sample(at, 70 + number) for at in moments])]
    )


def _rows(statement: str) -> list[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.mark.usefixtures("months")
def test_unique_keys_include_the_distribution_key() -> None:
    found = _rows(UNIQUE_INDEXES)
    assert {table for table, *_ in found} == DISTRIBUTED.keys() | ON_ONE_NODE
    distributed = [row for row in found if row[0] in DISTRIBUTED]
    assert len({own for _, own, *_ in distributed}) >= 3, (
        "the table and the partitions of two months"
    )
    for table, own, index, columns in distributed:
        assert DISTRIBUTED[table] in columns, f"{index} of {own} lacks {DISTRIBUTED[table]}"


@pytest.mark.usefixtures("months")
def test_samples_have_no_foreign_keys() -> None:
    assert _rows(FOREIGN_KEYS) == []


def _append() -> None:
    _store_samples(2, datetime(2026, 3, 1, 8, 1, tzinfo=UTC))


def _merge() -> None:
    _store_samples(3, datetime(2026, 3, 1, 8, tzinfo=UTC))


def _read_chart() -> None:
    span = Span(DAY, date(2026, 3, 1), ZoneInfo("UTC"))
    assert sample_charts(sample_measure("heartrate"), list(Series.objects.all()), span)


def _read_newest() -> None:
    assert newest_samples(uid("patient", 1))


def _read_recency() -> None:
    assert newest_data_by_provider(uid("patient", 1))


def _list_samples() -> None:
    after = (1, datetime(2026, 1, 1, tzinfo=UTC))
    assert SamplePagination().read_rows(Series.objects.all(), after, 5)


FREQUENT_STATEMENTS: dict[str, Callable[[], None]] = {
    "append": _append,
    "merge": _merge,
    "chart": _read_chart,
    "newest": _read_newest,
    "recency": _read_recency,
}


def _statements(work: Callable[[], None]) -> Iterator[str]:
    with CaptureQueriesContext(connection) as captured:
        work()
    for query in captured.captured_queries:
        if re.search(r"\bwearables_chunk", query["sql"]) and "to_regclass" not in query["sql"]:
            yield query["sql"]


@pytest.mark.usefixtures("months")
@pytest.mark.parametrize("name", FREQUENT_STATEMENTS)
def test_frequent_statements_filter_by_series(name: str) -> None:
    found = list(_statements(FREQUENT_STATEMENTS[name]))
    assert found
    assert [statement for statement in found if not BY_SERIES.search(statement)] == []


@pytest.mark.usefixtures("months")
def test_only_full_export_does_not_filter_by_series() -> None:
    (statement,) = _statements(_list_samples)
    assert not BY_SERIES.search(statement)
