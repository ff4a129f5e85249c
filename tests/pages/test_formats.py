"""Formats of values on pages: plain text, empty for a missing value."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.utils import timezone

from backoffice.core import time_formats, vocabulary
from backoffice.core.time_formats import DateStyle
from backoffice.pages import formats
from backoffice.pages.jinja import cell_macros
from backoffice.pages.lists.definition import Column

NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False), timezone.override("America/New_York"):
        yield


def test_missing_values_are_empty_texts() -> None:
    assert formats.age(None) == formats.since(None) == formats.money(None) == ""
    assert formats.cents(None) == formats.thousands(None) == formats.yes_no(None) == ""
    assert formats.initials(None) == formats.initials("  ") == ""
    assert formats.local_date(None) is None
    assert not formats.is_minor(None)


def test_times_are_in_named_or_own_zone() -> None:
    assert formats.full_time(NOW, "America/Phoenix") == "Fri, Nov 20, 8:00 AM MST"
    assert formats.full_time(NOW, "No/Where") == "Fri, Nov 20, 10:00 AM EST"
    assert formats.short_time(NOW) == "Nov 20, 10:00 AM"
    assert formats.short_time(NOW, UTC) == "Nov 20, 3:00 PM"
    assert formats.clock_time(NOW) == "10:00 AM"
    assert formats.own_time(NOW, "America/Phoenix") == "Fri, Nov 20, 10:00 AM EST"
    assert formats.own_time(NOW, "America/Toronto") == formats.own_time(None, "UTC") == ""
    assert formats.zone_clock("America/Phoenix") == "Fri, 8:00 AM MST"
    assert formats.utc_iso(NOW) == "2026-11-20T15:00:00+00:00"
    assert formats.iso_day(date(984, 2, 9)) == "984-02-09"


def test_dense_time_is_as_short_as_its_day_allows() -> None:
    zone, today = ZoneInfo("America/New_York"), date(2026, 11, 20)
    assert formats.dense_time(NOW, zone, today) == "10:00 AM"
    assert formats.dense_time(NOW - timedelta(hours=11), zone, today) == "Nov 19"
    assert formats.dense_time(NOW - timedelta(days=365), zone, today) == "Nov 20, 2025"


def test_dates_are_in_the_style_of_the_reader() -> None:
    moment = datetime(2026, 11, 5, 0, 7, 9, tzinfo=UTC)
    assert formats.long_day(moment.date()) == "Thursday, November 5"
    assert formats.full_day(moment.date()) == "Thursday, November 5, 2026"
    assert time_formats.hour_with_seconds(moment) == "12:07:09 AM"
    assert time_formats.hour(moment.replace(hour=12)) == "12:07 PM"
    with time_formats.override(DateStyle(day_first=True, hours_24=True)):
        assert formats.full_time(NOW, "America/Phoenix") == "Fri 20 Nov, 08:00 MST"
        assert formats.full_time(NOW.replace(year=2025), "UTC") == "Thu 20 Nov 2025, 15:00 UTC"
        assert formats.short_time(NOW) == "20 Nov, 10:00"
        assert formats.full_day(moment.date()) == "Thursday 5 November 2026"
        assert time_formats.hour_with_seconds(moment) == "00:07:09"
        assert time_formats.calendar_day(moment) == "5 Nov 2026"
    with time_formats.override(DateStyle(hours_24=True)):
        assert formats.short_time(NOW) == "Nov 20, 10:00"
    assert formats.short_time(NOW) == "Nov 20, 10:00 AM"


def test_order_term_has_family_of_stored_group() -> None:
    term = formats.order_term("completed", "testkit", vocabulary.NEEDS_ACTION)
    assert (term.family, term.glyph) == (
        vocabulary.NEEDS_ACTION,
        vocabulary.GLYPHS[vocabulary.NEEDS_ACTION],
    )
    assert formats.order_term("completed", "testkit", "new-group").glyph == "question"
    assert formats.order_term("completed", "testkit", "").family == vocabulary.RESULT_IN


def test_written_time_reads_text_and_keeps_read_time() -> None:
    read = formats.written_time("2026-10-15T17:56:52")
    assert read.local == datetime(2026, 10, 15, 17, 56, 52)
    assert formats.written_time(read) is read


def test_cell_macros_fail_for_column_without_macro() -> None:
    column, other = Column("a", "A", macro="name"), Column("b", "B", macro="missing")
    macros = SimpleNamespace(name=str)
    assert cell_macros([column], macros) == [(column, str)]
    with pytest.raises(AttributeError, match="missing"):
        cell_macros([other], macros)
