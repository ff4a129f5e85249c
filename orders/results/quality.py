"""Where draws and labs go wrong: causes of missing results by method and lab, and turnaround."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice import audit
from backoffice.core.access import requires
from labs.models import Lab

MONTHS: Final = 12
"""How far back one can look, the present month included."""


@dataclass(slots=True)
class Line:
    """One method at one lab."""

    method: str
    lab: str
    lab_name: str = ""
    results: int = 0
    half: timedelta | None = None
    most: timedelta | None = None
    causes: dict[str, int] = field(default_factory=dict)
    struck: int = 0
    """Results with at least one failed marker."""

    @property
    def failed(self) -> int:
        return sum(self.causes.values())

    @property
    def share(self) -> float | None:
        return 100 * self.struck / self.results if self.results else None


# A marker of a partial result that is only late has not failed.
_FAILED: Final = """
FROM orders_order o
JOIN orders_result r ON r.order_id = o.id
JOIN orders_resultmarker m ON m.result_id = o.id AND m.is_missing
WHERE o.created_at >= %s AND o.created_at < %s
 AND NOT (r.status = 'partial' AND m.failure_type = 'non_failure')
"""
_CAUSES: Final = f"""
SELECT o.method, coalesce(o.lab_slug, ''), coalesce(m.failure_type, ''), count(*) {_FAILED}
GROUP BY 1, 2, 3
"""
_STRUCK: Final = f"""
SELECT o.method, coalesce(o.lab_slug, ''), count(DISTINCT o.id) {_FAILED} GROUP BY 1, 2
"""
_PACE: Final = """
SELECT o.method, coalesce(o.lab_slug, ''), count(*),
 percentile_cont(0.5) WITHIN GROUP (ORDER BY o.last_event_at - o.created_at),
 percentile_cont(0.9) WITHIN GROUP (ORDER BY o.last_event_at - o.created_at)
FROM orders_order o
WHERE o.created_at >= %s AND o.created_at < %s AND o.bucket = 'result-in'
GROUP BY 1, 2
"""


def lines_of(start: datetime, end: datetime) -> list[Line]:
    """Orders placed in this time: four statements, counted by the database."""
    found: dict[tuple[str, str], Line] = {}

    def line(method: str, lab: str) -> Line:
        return found.setdefault((method, lab), Line(method, lab))

    with connection.cursor() as cursor:
        cursor.execute(_PACE, [start, end])
        for method, lab, count, half, most in cursor.fetchall():
            one = line(method, lab)
            one.results, one.half, one.most = count, half, most
        cursor.execute(_CAUSES, [start, end])
        for method, lab, cause, count in cursor.fetchall():
            line(method, lab).causes[cause] = count
        cursor.execute(_STRUCK, [start, end])
        for method, lab, count in cursor.fetchall():
            line(method, lab).struck = count
    names = dict(
        Lab.objects.filter(slug__in=[one.lab for one in found.values()]).values_list("slug", "name")
    )
    for one in found.values():
        one.lab_name = names.get(one.lab, "")
    return sorted(found.values(), key=lambda one: (one.method, -one.failed, one.lab))


@requires("results.view")
@require_safe
def quality(request: HttpRequest) -> HttpResponse:
    """One month of orders; nobody is named."""
    months = _months(timezone.localdate())
    wanted = request.GET.get("month", "")
    month = next((one for one in months if f"{one:%Y-%m}" == wanted), months[0])
    start, end = _bounds(month)
    lines = lines_of(start, end)
    causes = _by_weight(lines)
    audit.listed(request, "result statistics", [], [])
    context = {
        "months": months,
        "month": month,
        "lines": [(one, [one.causes.get(cause, 0) for cause in causes]) for one in lines],
        "causes": causes,
        "totals": [sum(one.causes.get(cause, 0) for one in lines) for cause in causes],
        "failed": sum(one.failed for one in lines),
        "results": sum(one.results for one in lines),
    }
    return render(request, "reviewing/quality.html", context)


def _by_weight(lines: Sequence[Line]) -> list[str]:
    """Causes that occur, the most frequent first."""
    sums: dict[str, int] = {}
    for one in lines:
        for cause, count in one.causes.items():
            sums[cause] = sums.get(cause, 0) + count
    return sorted(sums, key=lambda cause: -sums[cause])


def _months(today: date) -> list[date]:
    found = [today.replace(day=1)]
    while len(found) < MONTHS:
        found.append((found[-1] - timedelta(days=1)).replace(day=1))
    return found


def _bounds(month: date) -> tuple[datetime, datetime]:
    """From midnight to midnight of the staff member's zone."""
    zone = timezone.get_current_timezone()
    following = (month + timedelta(days=32)).replace(day=1)
    start, end = (datetime(d.year, d.month, d.day, tzinfo=zone) for d in (month, following))
    return start.astimezone(UTC), end.astimezone(UTC)
