"""Times as laboratories write them: an instant only with an offset, and never another day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone as django_timezone
from hypothesis import given
from hypothesis import strategies as st

from backoffice.core.time_formats import calendar_day
from backoffice.pages.macros import render_macro
from backoffice.service.written_times import Precision, read_written_time

ZONES = tuple(map(ZoneInfo, ("Pacific/Honolulu", "Pacific/Auckland", "UTC", "Asia/Kathmandu")))


@pytest.mark.parametrize(
    ("text", "precision", "wall"),
    [
        ("2026-03-14T07:30:00", "local time", datetime(2026, 3, 14, 7, 30)),
        ("2026-03-14 07:30", "local time", datetime(2026, 3, 14, 7, 30)),
        (" 2026-03-14 7:30 am ", "local time", datetime(2026, 3, 14, 7, 30)),
        ("2026-03-14T07:30:00.5", "local time", datetime(2026, 3, 14, 7, 30, 0, 500_000)),
        ("2026-03-14", "day", datetime(2026, 3, 14)),
        ("2026-03-14T", "none", datetime(2026, 3, 14)),
        ("2026-03-14T24:00:00", "none", datetime(2026, 3, 14)),
        ("2026-03-14T07:30:00 EST", "none", datetime(2026, 3, 14)),
        ("2026-03-14-05:00", "none", datetime(2026, 3, 14)),
        ("2026-03-14+00:00", "none", datetime(2026, 3, 14)),
        ("2026-03-14T07:30:00-05:00", "instant", datetime(2026, 3, 14, 12, 30)),
        ("2026-03-14T07:30:00Z", "instant", datetime(2026, 3, 14, 7, 30)),
        ("03/14/2026", "day", datetime(2026, 3, 14)),
        ("14/03/2026", "day", datetime(2026, 3, 14)),
        ("14.3.2026", "day", datetime(2026, 3, 14)),
        ("3/14/2026 7:30 PM", "local time", datetime(2026, 3, 14, 19, 30)),
        ("3/14/2026, 12:05:09 a.m.", "local time", datetime(2026, 3, 14, 0, 5, 9)),
        ("03-03-2026", "day", datetime(2026, 3, 3)),
        ("03/04/2026", "none", None),
        ("03/14.2026", "none", None),
        ("3/14/2026 13:05 PM", "none", datetime(2026, 3, 14)),
        ("14/14/2026", "none", None),
        ("02/30/2026", "none", None),
        ("2026-02-30", "none", None),
        ("2026-02-30T10:00:00", "none", None),
        ("0001-01-01T00:00:00", "none", None),
        ("9999-12-31T23:59:59Z", "none", None),
        ("20260314", "none", None),
        ("soon", "none", None),
        ("٢٠٢٦-٠٣-١٤", "none", None),
        ("", "none", None),
        (None, "none", None),
    ],
)
def test_read_written_time(text: str | None, precision: str, wall: datetime | None) -> None:
    found = read_written_time(text)
    assert (found.text, found.precision) == (text or "", precision)
    assert found.sort_key(UTC) == wall
    assert (found.instant is not None) is (precision == "instant")


days = st.dates(date(1900, 1, 1), date(2200, 12, 31))
clocks = st.times()
offsets = st.timedeltas(timedelta(hours=-14), timedelta(hours=14)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
iso = st.builds(datetime.combine, days, clocks)
local_days = st.one_of(
    iso.map(lambda one: (one.isoformat(), one.date())),
    iso.map(lambda one: (one.isoformat(" ", "minutes"), one.date())),
    iso.map(lambda one: (f"{one:%Y-%m-%d %I:%M %p}", one.date())),
    iso.map(lambda one: (f"{one.date().isoformat()} {one:%H:%M} PST", one.date())),
    days.map(lambda one: (one.isoformat(), one)),
    days.filter(lambda one: one.day > 12).map(
        lambda one: (f"{one.month}/{one.day}/{one.year}", one)
    ),
    days.filter(lambda one: one.day > 12).map(
        lambda one: (f"{one.day:02}/{one.month:02}/{one.year} 23:59", one)
    ),
)


@given(local_days, st.sampled_from(ZONES))
def test_time_without_an_offset_keeps_its_day_everywhere(
    sent: tuple[str, date], zone: ZoneInfo
) -> None:
    text, day = sent
    found = read_written_time(text)
    wall = found.sort_key(zone)
    assert found.instant is None and wall is not None
    assert found.day == wall.date() == day


@given(iso, offsets, st.sampled_from(ZONES))
def test_time_with_an_offset_is_that_instant(
    wall: datetime, offset: timezone, zone: ZoneInfo
) -> None:
    moment = wall.replace(tzinfo=offset)
    found = read_written_time(moment.isoformat())
    assert (found.precision, found.instant) == (Precision.INSTANT, moment)
    assert found.day == wall.date()
    assert found.sort_key(zone) == moment.astimezone(zone).replace(tzinfo=None)


garbage = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="0123456789-/.:TZ +APMapm", max_size=30),
    st.builds("{}{}".format, local_days.map(lambda sent: sent[0]), st.text(max_size=8)),
)


@given(garbage, st.sampled_from(ZONES))
def test_no_text_is_an_exception_or_another_day(text: str, zone: ZoneInfo) -> None:
    found = read_written_time(text)
    assert found.text == text
    if found.precision is Precision.INSTANT:
        assert found.instant is not None and found.instant.tzinfo is not None
    elif found.day is not None:
        assert found.sort_key(zone) is not None
        numbers = {str(found.day.year), f"{found.day.day}", f"{found.day.month}"}
        assert all(number in text for number in numbers)
    for macro in ("written_time", "written_day"):
        assert render_macro("macros/times.html", macro, text)


@given(local_days, st.sampled_from(ZONES))
def test_pages_show_the_day_as_written(sent: tuple[str, date], zone: ZoneInfo) -> None:
    text, day = sent
    with django_timezone.override(zone):
        for macro in ("written_time", "written_day"):
            shown = render_macro("macros/times.html", macro, text)
            assert calendar_day(day) in shown or text in shown
