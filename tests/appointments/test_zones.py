"""Promise P25: every time zone, around every change of its clocks from 2024 to 2028. Times on pages
and the contents of days agree with the system's `date`."""

from __future__ import annotations

import functools
import os
import subprocess
import zoneinfo
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from backoffice.core.time_formats import spoken, zone_of
from backoffice.pages.lists.fields import TimestampField
from orders.appointment_list.display_times import appointment_clocks
from orders.appointment_zones import STATE_NAMES, Basis, visit_zone
from orders.models import Appointment
from orders.models.appointment import draw_day
from tests.api.rows import envelope, staff, uid

FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
LEAST = 4_000
AROUND = (-86_400, -7_200, -3_600, -1, 0, 1, 3_599, 7_200, 86_400)
"""Seconds before and after a change of the clocks that are checked."""


@dataclass(frozen=True)
class Wall:
    """The local time according to `date`."""

    day: date
    time: str
    letters: str
    spoken: str


def changes(zone: ZoneInfo) -> list[datetime]:
    """Return the times from `FIRST` to `LAST` at which the UTC offset or abbreviation changes."""

    def state(moment: datetime) -> tuple[Any, ...]:
        local = moment.astimezone(zone)
        return local.utcoffset(), local.tzname()

    found, at, held = [], FIRST, state(FIRST)
    while at < LAST:
        then = at + timedelta(days=7)
        if state(then) != held:
            low, high = at, then
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low).total_seconds() // 2)
                low, high = (middle, high) if state(middle) == held else (low, middle)
            found.append(high)
            held = state(then)
        at = then
    return found


def moments(zone: ZoneInfo) -> list[datetime]:
    """Return times around each change, around the next midnights, and around each new year."""
    found = {datetime(year, 7, 1, 12, tzinfo=UTC) for year in range(2024, 2029)}
    found |= {datetime(year, 1, 1, tzinfo=UTC) for year in range(2024, 2029)}
    for change in changes(zone):
        found |= {change + timedelta(seconds=seconds) for seconds in AROUND}
        for away in (0, 1):
            day = change.astimezone(zone).date() + timedelta(days=away)
            edge = datetime.combine(day, time.min, zone).astimezone(UTC)
            found |= {edge, edge - timedelta(seconds=1)}
    return sorted(found)


def folder(name: str) -> str:
    """Return the folder of a zone in `zoneinfo`: `date` must read the same edition."""
    for path in zoneinfo.TZPATH:
        if Path(path, name).is_file():
            return path
    return str(files("tzdata") / "zoneinfo")


def system_times(name: str, when: list[datetime]) -> list[Wall]:
    """Return the local times of many moments according to the system's `date`."""
    answer = subprocess.run(
        ["date", "-f", "-", "+%Y-%m-%d|%-I:%M %p|%Z|%a, %b %-d, %-I:%M %p"],
        input="\n".join(f"@{int(moment.timestamp())}" for moment in when),
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": name, "TZDIR": folder(name)},
        text=True,
        check=True,
        capture_output=True,
    )
    walls = []
    for line in answer.stdout.splitlines():
        day, clock, letters, words = line.split("|")
        if letters[0] in "+-":
            letters = "UTC" + letters.replace("-", "−")
        walls.append(Wall(date.fromisoformat(day), clock, letters, words))
    return walls


@functools.cache
def expected_times() -> dict[str, list[tuple[datetime, Wall]]]:
    names = sorted(name for name in zoneinfo.available_timezones() if zone_of(name))
    when = {name: moments(ZoneInfo(name)) for name in names}
    with ThreadPoolExecutor(4) as pool:
        walls = dict(zip(names, pool.map(lambda n: system_times(n, when[n]), names), strict=True))
    return {name: list(zip(when[name], walls[name], strict=True)) for name in names}


def test_every_zone_and_every_change_are_looked_at() -> None:
    assert len(expected_times()) > 590
    assert sum(map(len, expected_times().values())) >= LEAST
    assert sum(len(changes(ZoneInfo(name))) for name in expected_times()) >= 1_000
    # Sydney, Cairo (a day without midnight), Lord Howe (half an hour).
    assert len(changes(ZoneInfo("Australia/Sydney"))) == 10
    assert len(changes(ZoneInfo("Africa/Cairo"))) == 10
    assert len(changes(ZoneInfo("Australia/Lord_Howe"))) == 10


def test_times_days_and_abbreviations_are_local() -> None:
    here = ZoneInfo("America/New_York")
    wrong: list[tuple[Any, ...]] = []
    for name, cases in expected_times().items():
        for moment, wall in cases:
            shown = appointment_clocks(moment, visit_zone(name, None), here)
            told = spoken(moment.astimezone(ZoneInfo(name)), shown.draw_time)
            if (shown.draw_time.date(), shown.time, shown.zone) != (
                wall.day,
                wall.time,
                wall.letters,
            ):
                wrong.append((name, moment, shown, wall))
            if (
                told != f"{wall.spoken} {wall.letters}"
                or draw_day(moment, visit_zone(name, None)) != wall.day
            ):
                wrong.append((name, moment, told, wall))
    assert wrong == []


def test_staff_time_is_local_time() -> None:
    """Users in every time zone see a draw in Phoenix."""
    wrong = []
    for name, cases in expected_times().items():
        for moment, wall in cases:
            shown = appointment_clocks(moment, visit_zone("America/Phoenix", None), ZoneInfo(name))
            same_day = shown.draw_time.date() == wall.day
            words = f"{wall.time} {wall.letters}" if same_day else f"{wall.spoken} {wall.letters}"
            same = shown.draw_time.utcoffset() == moment.astimezone(ZoneInfo(name)).utcoffset()
            if shown.staff_text != ("" if same else words):
                wrong.append((name, moment, shown.staff_text, wall))
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [None, "", "No/Where", "America", "localtime", "right/UTC", "CST", "../../etc/passwd",
     "America/New_York\n"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("state", "zone", "time_there", "note"),
    [
        ("TX", "America/Chicago", "9:30 PM CST", "time zone assumed from the state"),
        (" new  york", "America/New_York", "10:30 PM EST", "time zone assumed from the state"),
        ("Puerto Rico", "America/Puerto_Rico", "11:30 PM AST", "time zone assumed from the state"),
        ("AE", "UTC", "3:30 AM UTC", "time zone unknown, shown in UTC"),
        ("", "UTC", "3:30 AM UTC", "time zone unknown, shown in UTC"),
        (None, "UTC", "3:30 AM UTC", "time zone unknown, shown in UTC"),
    ],
)
def test_visit_without_zone_never_uses_the_readers_zone(
    name: str | None, state: str | None, zone: str, time_there: str, note: str
) -> None:
    moment = datetime(2026, 3, 8, 3, 30, tzinfo=UTC)
    found = visit_zone(name, state)
    assert (found.name, found.note, found.is_given) == (zone, note, False)
    for here in ("Pacific/Honolulu", "Pacific/Auckland"):
        shown = appointment_clocks(moment, found, ZoneInfo(here))
        assert (f"{shown.time} {shown.zone}", shown.note) == (time_there, note)
    day = date(2026, 3, 8) if zone == "UTC" else date(2026, 3, 7)
    assert draw_day(moment, found) == day


def test_every_state_has_a_zone_by_code_and_by_name() -> None:
    assert len(STATE_NAMES) == 56
    for code, name in STATE_NAMES.items():
        assert visit_zone(None, name) == visit_zone(None, code.lower())
        assert visit_zone(None, code).basis is Basis.STATE


@given(st.one_of(st.none(), st.text(max_size=20)), st.one_of(st.none(), st.text(max_size=8)))
def test_invented_zones_are_never_an_exception(name: str | None, state: str | None) -> None:
    found = visit_zone(name, state)
    assert found.is_given is not bool(found.note)


def test_misleading_signs_and_abbreviations_are_read_by_name() -> None:
    moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    for name, time_there, letters in (
        ("EST", "7:00 AM", "EST"),
        ("Etc/GMT+5", "7:00 AM", "UTC−05"),
    ):
        shown = appointment_clocks(moment, visit_zone(name, None), ZoneInfo("UTC"))
        assert (shown.note, shown.time, shown.zone) == ("", time_there, letters)


def test_filter_by_day_uses_the_local_day() -> None:
    first, last, wrong = TimestampField(), TimestampField(end_of_day=True), []
    for name, cases in expected_times().items():
        with timezone.override(ZoneInfo(name)):
            for moment, wall in cases:
                begins, ends = first.clean(str(wall.day)), last.clean(str(wall.day))
                later = first.clean(str(wall.day + timedelta(days=1)))
                assert begins and ends and later
                if not begins <= moment <= ends or later <= moment:
                    wrong.append((name, moment, begins, ends))
    assert wrong == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name",
    [
        "America/New_York",
        "Africa/Cairo",
        "Australia/Lord_Howe",
        "America/Havana",
        "Pacific/Chatham",
        "Europe/Dublin",
        "America/Sao_Paulo",
        "Antarctica/Troll",
    ],
)
def test_page_shows_the_local_times(client: Client, name: str) -> None:
    client.force_login(staff("front desk"))
    cases = expected_times()[name]
    cases = cases[:: max(1, len(cases) // 60)] + cases[-15:]
    Appointment.objects.bulk_create(
        Appointment(
            id=uid("visit", n),
            type="phlebotomy",
            provider="draw-west",
            status="confirmed",
            event_status="scheduled",
            start_at=moment,
            draw_day=draw_day(moment, visit_zone(name, None)),
            iana_timezone=name,
            **envelope(),
        )
        for n, (moment, _) in enumerate(cases)
    )
    for day in sorted({wall.day for _, wall in cases})[::7]:
        expected = [(n, wall) for n, (_, wall) in enumerate(cases) if wall.day == day]
        for show in ("past", "upcoming"):
            wanted = [
                (n, wall)
                for n, wall in expected
                if (cases[n][0] < timezone.now()) == (show == "past")
            ]
            query = {"show": show, "start_date": str(day), "end_date": str(day)}
            answer = client.get("/appointments/", query)
            shown = {row.appointment.pk for row in answer.context["rows"]}
            assert shown == {uid("visit", n) for n, _ in wanted}
            for _, wall in wanted:
                words = f"<strong>{wall.time}</strong> {wall.letters}</time>"
                assert words in answer.content.decode()
