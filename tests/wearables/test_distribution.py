"""Samples are ready to be spread over machines by series: what `docs/scale.md` says of keys and of
statements, held against the catalogue and against what the code asks."""

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
from patients.wearables.samples_api import _SampleRows
from patients.wearables.spans import DAY, Span
from tests.api.rows import patient, uid
from tests.wearables.test_samples import heard, sample

pytestmark = pytest.mark.django_db

SPREAD = {"wearables_chunk": "series_id"}
"""Tables that grow with every sample, and the column they are distributed by."""
ON_ONE_NODE = {
    "wearables_historicalpull",
    "wearables_series",
    "wearables_source",
    "wearables_summary",
    "wearables_workoutstream",
}
UNIQUE = """
SELECT coalesce(parent.relname, own.relname), own.relname, index.relname,
 array(SELECT attname FROM pg_attribute WHERE attrelid = own.oid AND attnum = ANY(i.indkey))
FROM pg_index AS i JOIN pg_class AS own ON own.oid = i.indrelid
JOIN pg_class AS index ON index.oid = i.indexrelid
LEFT JOIN pg_inherits ON inhrelid = own.oid LEFT JOIN pg_class AS parent ON parent.oid = inhparent
WHERE i.indisunique AND own.relname LIKE 'wearables\\_%%' AND own.relkind IN ('r', 'p')
"""
FOREIGN = """
SELECT conname FROM pg_constraint WHERE contype = 'f'
AND ARRAY['wearables_chunk'::regclass] && ARRAY[conrelid::regclass, confrelid::regclass]
"""
BOUND = re.compile(r"series_id = |(USING|ON CONFLICT) \(series_id, day\)")
"""Every row that is read or written is named by its series."""


@pytest.fixture
def months() -> None:
    """Samples of two months: the partitions of their days are there."""
    patient(1).save()
    _hear(1, *(datetime(2026, month, 1, 8, tzinfo=UTC) for month in (3, 4)))


def _hear(number: int, *moments: datetime) -> None:
    handle_samples([heard(number, "heartrate", [sample(at, 70 + number) for at in moments])])


def _rows(statement: str) -> list[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.mark.usefixtures("months")
def test_unique_keys_include_the_distribution_key() -> None:
    found = _rows(UNIQUE)
    assert {table for table, *_ in found} == SPREAD.keys() | ON_ONE_NODE
    spread = [row for row in found if row[0] in SPREAD]
    assert len({own for _, own, *_ in spread}) >= 3, "the table and the partitions of two months"
    for table, own, index, columns in spread:
        assert SPREAD[table] in columns, f"{index} of {own} does without {SPREAD[table]}"


@pytest.mark.usefixtures("months")
def test_samples_have_no_foreign_keys() -> None:
    assert _rows(FOREIGN) == []


def _appended() -> None:
    _hear(2, datetime(2026, 3, 1, 8, 1, tzinfo=UTC))


def _merged() -> None:
    _hear(3, datetime(2026, 3, 1, 8, tzinfo=UTC))


def _charted() -> None:
    span = Span(DAY, date(2026, 3, 1), ZoneInfo("UTC"))
    assert sample_charts(sample_measure("heartrate"), list(Series.objects.all()), span)


def _newest() -> None:
    assert newest_samples(uid("patient", 1))


def _recent() -> None:
    assert newest_data_by_provider(uid("patient", 1))


def _listed() -> None:
    assert _SampleRows(after=(1, datetime(2026, 1, 1, tzinfo=UTC)))[:5]


HOT: dict[str, Callable[[], None]] = {
    "append": _appended,
    "merge": _merged,
    "chart": _charted,
    "newest": _newest,
    "recency": _recent,
}


def _statements(work: Callable[[], None]) -> Iterator[str]:
    with CaptureQueriesContext(connection) as captured:
        work()
    for query in captured.captured_queries:
        if re.search(r"\bwearables_chunk", query["sql"]) and "to_regclass" not in query["sql"]:
            yield query["sql"]


@pytest.mark.usefixtures("months")
@pytest.mark.parametrize("name", HOT)
def test_frequent_statements_name_their_series(name: str) -> None:
    found = list(_statements(HOT[name]))
    assert found
    assert [statement for statement in found if not BOUND.search(statement)] == []


@pytest.mark.usefixtures("months")
def test_only_a_full_export_names_no_series() -> None:
    (statement,) = _statements(_listed)
    assert not BOUND.search(statement)
