"""Quality of results: causes of missing markers by method and lab, and turnaround."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.db import connection
from django.utils import timezone

from labs.models import Lab

MONTHS: Final = 12
"""Number of months that can be chosen, including the current one."""


@dataclass(slots=True)
class QualityLine:
    """The figures of one method at one lab."""

    method: str
    lab: str
    lab_name: str = ""
    results: int = 0
    median: timedelta | None = None
    percentile_90: timedelta | None = None
    causes: dict[str, int] = field(default_factory=dict)
    affected_results: int = 0
    """Results with at least one failed marker."""

    @property
    def failed(self) -> int:
        return sum(self.causes.values())

    @property
    def affected_percent(self) -> float | None:
        return 100 * self.affected_results / self.results if self.results else None


# A marker of a partial result that is only late does not count as failed.
_FAILED_SQL: Final = """
FROM orders_order o
JOIN orders_result r ON r.order_id = o.id
JOIN orders_resultmarker m ON m.result_id = o.id AND m.is_missing
WHERE o.created_at >= %s AND o.created_at < %s
 AND NOT (r.status = 'partial' AND m.failure_type = 'non_failure')
"""
_CAUSES_SQL: Final = f"""
SELECT o.method, coalesce(o.lab_slug, ''), coalesce(m.failure_type, ''), count(*) {_FAILED_SQL}
GROUP BY 1, 2, 3
"""
_AFFECTED_SQL: Final = f"""
SELECT o.method, coalesce(o.lab_slug, ''), count(DISTINCT o.id) {_FAILED_SQL} GROUP BY 1, 2
"""
_TURNAROUND_SQL: Final = """
SELECT o.method, coalesce(o.lab_slug, ''), count(*),
 percentile_cont(0.5) WITHIN GROUP (ORDER BY o.last_event_at - o.created_at),
 percentile_cont(0.9) WITHIN GROUP (ORDER BY o.last_event_at - o.created_at)
FROM orders_order o
WHERE o.created_at >= %s AND o.created_at < %s AND o.bucket = 'result-in'
GROUP BY 1, 2
"""


def quality_lines(start: datetime, end: datetime) -> list[QualityLine]:
    """Return the figures of the orders placed in a period: four statements."""
    lines: dict[tuple[str, str], QualityLine] = {}

    def line_of(method: str, lab: str) -> QualityLine:
        return lines.setdefault((method, lab), QualityLine(method, lab))

    with connection.cursor() as cursor:
        cursor.execute(_TURNAROUND_SQL, [start, end])
        for method, lab, count, median, percentile_90 in cursor.fetchall():
            line = line_of(method, lab)
            line.results, line.median, line.percentile_90 = count, median, percentile_90
        cursor.execute(_CAUSES_SQL, [start, end])
        for method, lab, cause, count in cursor.fetchall():
            line_of(method, lab).causes[cause] = count
        cursor.execute(_AFFECTED_SQL, [start, end])
        for method, lab, count in cursor.fetchall():
            line_of(method, lab).affected_results = count
    names = Lab.names()
    for line in lines.values():
        line.lab_name = names.get(line.lab, "")
    return sorted(lines.values(), key=lambda line: (line.method, -line.failed, line.lab))


def causes_by_frequency(lines: Sequence[QualityLine]) -> list[str]:
    """Return the causes that occur, the most frequent first."""
    sums: dict[str, int] = {}
    for line in lines:
        for cause, count in line.causes.items():
            sums[cause] = sums.get(cause, 0) + count
    return sorted(sums, key=lambda cause: -sums[cause])


def recent_months(today: date) -> list[date]:
    months = [today.replace(day=1)]
    while len(months) < MONTHS:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months


def month_bounds(month: date) -> tuple[datetime, datetime]:
    """Return start and end of a month in the staff member's time zone, as UTC."""
    zone = timezone.get_current_timezone()
    following = (month + timedelta(days=32)).replace(day=1)
    start, end = (datetime(d.year, d.month, d.day, tzinfo=zone) for d in (month, following))
    return start.astimezone(UTC), end.astimezone(UTC)
