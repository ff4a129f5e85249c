"""Macros and formats of the design system, with exact output."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.http import QueryDict
from django.template import engines
from django.test import RequestFactory
from django.utils import timezone
from jinja2 import UndefinedError

from backoffice.core import time_formats, vocabulary
from backoffice.pages import formats, frame, icons, query_strings
from backoffice.pages.macros import render_macro

IMPORTS = (
    '{% from "macros/status.html" import badge, order_badge %}'
    '{% from "macros/values.html" import or_dash %}'
)
ICONS = "macros/icons.html"
RESULTS = "macros/results.html"
TIMES = "macros/times.html"
VALUES = "macros/values.html"
DASH = render_macro(VALUES, "dash")
NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Any:
    with time_machine.travel(NOW, tick=False), timezone.override("America/New_York"):
        yield


def render_template(template: str, **context: Any) -> str:
    source = engines["jinja2"].env.from_string(IMPORTS + template)  # type: ignore[attr-defined]
    return str(source.render(context))


def test_address_without_removes_value() -> None:
    given = QueryDict("lab=north&lab=south&status=lost&after=x")
    assert query_strings.address_without(given, "status", "lost") == "?lab=north&lab=south"
    assert query_strings.address_without(given, "lab", "north") == "?status=lost&lab=south"
    assert query_strings.address_without(QueryDict("status=lost"), "status", "lost") == "?"
    assert query_strings.address_with(given, size=25) == "?lab=north&lab=south&status=lost&size=25"


def test_every_named_glyph_and_icon_exists() -> None:
    for terms in vocabulary.VOCABULARIES.values():
        for item in terms.values():
            assert bool(render_macro(ICONS, "glyph", item.glyph)) == bool(item.glyph)
    for place in frame.SECTIONS:
        assert "<svg" in icons.icon_svg(place.icon)
    with pytest.raises(UndefinedError):
        render_macro(ICONS, "glyph", "unicorn")


def test_badge_has_shape_and_label_and_escapes_unknown() -> None:
    known = render_template('{{ badge("appointment.status", "confirmed") }}')
    assert 'data-st="on-the-way"' in known
    assert "<svg" in known
    assert "Booked" in known
    unknown = render_template('{{ badge("appointment.status", v) }}', v='<b onclick="x">')
    assert 'data-st="unknown"' in unknown
    assert "<b" not in unknown
    assert "—" in render_template('{{ badge("order.origin", v) }}', v=None)


def test_order_badge_keeps_stored_bucket() -> None:
    page = render_template('{{ order_badge("requisition_created", "testkit", "with-patient") }}')
    assert 'data-st="with-patient"' in page
    assert "Paperwork ready" in page


@pytest.mark.parametrize(
    ("moment", "zone", "expected"),
    [
        (datetime(2026, 11, 20, 13, 0, tzinfo=UTC), "America/Phoenix", "Fri, Nov 20, 6:00 AM MST"),
        (datetime(2026, 11, 20, 13, 0, tzinfo=UTC), None, "Fri, Nov 20, 8:00 AM EST"),
        (datetime(2026, 11, 20, 13, 0, tzinfo=UTC), "No/Where", "Fri, Nov 20, 8:00 AM EST"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), None, "Fri, Jul 3, 10:00 PM EDT"),
        (datetime(2025, 1, 1, 3, 0, tzinfo=UTC), None, "Tue, Dec 31, 2024, 10:00 PM EST"),
        (datetime(2026, 3, 1, 12, 0, tzinfo=UTC), "America/Sao_Paulo", "9:00 AM UTC−03"),
    ],
)
def test_time_shows_its_zone(moment: datetime, zone: str | None, expected: str) -> None:
    assert expected in render_macro(TIMES, "full_time", moment, zone)


@pytest.mark.parametrize(
    ("moment", "zone", "expected"),
    [
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "EST", "Fri, Jul 3, 9:00 PM EST"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "EST5EDT", "Fri, Jul 3, 10:00 PM EDT"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "PST8PDT", "Fri, Jul 3, 7:00 PM PDT"),
        (datetime(2026, 12, 4, 2, 0, tzinfo=UTC), "PST8PDT", "Thu, Dec 3, 6:00 PM PST"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "CST6CDT", "Fri, Jul 3, 9:00 PM CDT"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "MST7MDT", "Fri, Jul 3, 8:00 PM MDT"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "MST", "Fri, Jul 3, 7:00 PM MST"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "HST", "Fri, Jul 3, 4:00 PM HST"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "CET", "Sat, Jul 4, 4:00 AM CEST"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "EET", "Sat, Jul 4, 5:00 AM EEST"),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "MET", "Sat, Jul 4, 4:00 AM "),
        (datetime(2026, 7, 4, 2, 0, tzinfo=UTC), "Etc/GMT+5", "Fri, Jul 3, 9:00 PM UTC−05"),
    ],
)
def test_short_zone_name_is_shown_as_abbreviation(
    moment: datetime, zone: str, expected: str
) -> None:
    assert expected in render_macro(TIMES, "full_time", moment, zone)


def test_staff_clock_is_shown_only_when_it_differs() -> None:
    moment = datetime(2026, 11, 21, 4, 30, tzinfo=UTC)
    assert "Fri, Nov 20, 11:30 PM EST" in render_macro(
        TIMES, "your_time", moment, "America/Phoenix"
    )
    assert render_macro(TIMES, "your_time", moment, "America/Toronto") == ""
    assert render_macro(TIMES, "your_time", moment, None) == ""
    assert formats.zone_clock("America/Phoenix") == "Fri, 8:00 AM MST"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "just now"), (59, "just now"), (60, "1 min ago"), (3_599, "59 min ago"),
        (3_600, "1 hour ago"), (86_399, "23 hours ago"), (86_400, "1 day ago"),
        (-7_200, "in 2 hours"),
    ],
)  # fmt: skip
def test_ago_uses_one_unit(seconds: int, expected: str) -> None:
    moment = datetime.fromtimestamp(NOW.timestamp() - seconds, UTC)
    assert time_formats.ago(moment, NOW) == expected


@pytest.mark.parametrize(
    ("born", "expected"),
    [
        (date(1984, 11, 20), "42 y"), (date(1984, 11, 21), "41 y"), (date(2024, 11, 21), "23 mo"),
        (date(2026, 11, 20), "0 mo"), (date(2027, 1, 1), "0 mo"), (None, DASH),
    ],
)  # fmt: skip
def test_age_is_in_years_or_months(born: date | None, expected: str) -> None:
    assert render_macro(VALUES, "age", born) == expected


def test_age_of_person_born_on_leap_day_grows_on_march_1() -> None:
    born = date(2008, 2, 29)
    assert time_formats.years(born, date(2026, 2, 28)) == 17
    assert time_formats.years(born, date(2026, 3, 1)) == 18
    assert formats.is_minor(date(2008, 11, 21))
    assert not formats.is_minor(date(2008, 11, 20))


def test_missing_value_is_a_dash_and_zero_is_zero() -> None:
    values = "{{ or_dash(a) }}{{ or_dash(b) }}{{ or_dash(c) }}"
    assert render_template(values, a=0, b=False, c=7) == "0False7"
    assert "—" in render_template("{{ or_dash(a) }}", a=None)
    assert "—" in render_template("{{ or_dash(a) }}", a="")
    assert render_template("{{ or_dash(a) }}", a="<b>") == "&lt;b&gt;"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1240", "$1,240.00"), (3.5, "$3.50"), ("$$$", "$$$"), (None, DASH), (0, "$0.00")],
)
def test_money_is_formatted_with_cents(value: Any, expected: str) -> None:
    assert render_macro(VALUES, "money", value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(4900, "$49.00"), (6450.0, "$64.50"), (124000, "$1,240.00"), (0, "$0.00")],
)
def test_cents_are_formatted_as_money(value: float, expected: str) -> None:
    assert render_macro(VALUES, "money", value, cents=True) == expected
    assert render_macro(VALUES, "money", None, cents=True) == DASH


@pytest.mark.parametrize(
    ("value", "expected"),
    [("+15550100123", "(555) 010-0123"), ("5550100123", "(555) 010-0123"), ("call desk", "call")],
)
def test_phone_number_is_grouped(value: str, expected: str) -> None:
    assert expected in render_macro(VALUES, "phone", value)


def test_short_id_contains_whole_id_to_copy() -> None:
    whole = "7ea00000-0000-4000-8000-000000000001"
    page = render_macro(VALUES, "short_id", whole)
    assert ">7ea00000<" in page
    assert f'data-copy="{whole}"' in page
    assert render_macro(VALUES, "short_id", "S-1/<x>", copy=False).count("&lt;x&gt;") == 2
    assert render_macro(VALUES, "short_id", None) == DASH


def test_list_links_keep_filters_and_drop_cursor(rf: RequestFactory) -> None:
    request = rf.get("/orders/?status=a&status=b&after=xyz&size=5")
    context = {"request": request}
    assert render_template("{{ query_string(order_key='x') }}", **context) == (
        "?status=a&amp;status=b&amp;size=5&amp;order_key=x"
    )
    assert render_template("{{ query_string(status=none) }}", **context) == "?size=5"
    removed = render_template("{{ query_string_without('status', 'a') }}", **context)
    assert removed == "?size=5&amp;status=b"


@pytest.mark.parametrize(
    ("value", "low", "high", "is_out"),
    [
        (80, 70, 99, False), (120, 70, 99, True), (10, 70, 99, True), (161, None, 100, True),
        (50, None, 100, False), (10, 30, None, True), (1e12, 0, 1, True), (0, 0, 0, False),
        (-5, None, 0, False), (5, None, 0, True),
    ],
)  # fmt: skip
def test_range_bar_mark_stays_inside(
    value: float, low: float | None, high: float | None, is_out: bool
) -> None:
    page = render_macro(RESULTS, "range_bar", value, low, high)
    assert ('class="mark out"' in page) is is_out
    mark = re.search(r'(?:cx="|d="M)([\d.]+)', page)
    assert mark and 4 <= float(mark[1]) <= 92
    assert "style=" not in page


def test_mark_beyond_range_bar_is_an_arrow() -> None:
    assert "<path" in render_macro(
        RESULTS, "range_bar", 1_000, 70, 99
    ) and "<circle" not in render_macro(RESULTS, "range_bar", 1, 70, 99)
    assert "<circle" in render_macro(RESULTS, "range_bar", 101, 70, 99)


def test_missing_range_or_value_gives_no_bar() -> None:
    assert render_macro(RESULTS, "range_bar", 1.0, None, None) == ""
    assert render_macro(RESULTS, "range_bar", None, 1.0, 2.0) == ""


def test_clock_uses_time_zone_of_user() -> None:
    moment = datetime(2026, 11, 20, 13, 5, tzinfo=ZoneInfo("UTC"))
    assert ">8:05 AM<" in render_macro(TIMES, "clock_time", moment)
    assert ">Nov 20, 8:05 AM<" in render_macro(TIMES, "short_time", moment)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("2026-10-15T17:56:52.743912+00:00", ">Thu, Oct 15, 1:56 PM EDT<"),
        ("2026-10-15T17:56:52Z", ">Thu, Oct 15, 1:56 PM EDT<"),
        ("2026-10-15T17:56:52", ">Oct 15, 2026, 5:56 PM</time>"),
        ("2026-10-15T17:56:52", "lab’s local time"),
        ("2026-10-15T17:56:52", 'title="As received: 2026-10-15T17:56:52"'),
        ("2026-10-15", ">Oct 15, 2026<"),
        ("10/15/2026 5:56 PM", ">Oct 15, 2026, 5:56 PM</time>"),
        ("2026-10-15 17:56 EST", "2026-10-15 17:56 EST"),
        ("yesterday", "yesterday"),
        ("<b>", "&lt;b&gt;"),
        ("", "—"),
        (None, "—"),
    ],
)
def test_written_time_is_shown_like_other_times(sent: str | None, shown: str) -> None:
    assert shown in render_macro(TIMES, "written_time", sent)


def test_list_name_is_label_or_key() -> None:
    assert formats.list_name("pulls") == "Historical pulls"
    assert formats.list_name("new-list") == "new-list"
