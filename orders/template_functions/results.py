"""Functions of results for templates."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext
from jinja2 import pass_context
from jinja2.runtime import Context

from backoffice.core.time_formats import spoken
from orders.progress import format_duration
from orders.results import result_badges
from orders.results.forms import CALL_OUTCOME_LABELS, TELLER_LABELS


@pass_context
def unsigned_results(context: Context) -> int:
    """Return how many results wait for review; 0 for users who may not see results."""
    return result_badges(context["request"].user).unsigned


def outcome(value: str) -> str:
    """Return the label of a call's outcome."""
    return gettext(CALL_OUTCOME_LABELS.get(value, value))


def teller_label(value: str) -> str:
    """Return the label of the person who informs the patient."""
    return gettext(TELLER_LABELS.get(value, value))


def duration(length: timedelta | None) -> str:
    """Return a duration such as "3 d" or "5 h"; empty for None."""
    return "" if length is None else format_duration(length)


def ago_exactly(moment: datetime, now: datetime) -> str:
    """Return "3 s ago" within a minute, else the time with its zone."""
    seconds = int((now - moment).total_seconds())
    if 0 <= seconds < 60:
        return gettext("%(count)s s ago") % {"count": seconds}
    local = timezone.localtime(moment)
    return gettext("at %(time)s") % {"time": spoken(local, timezone.localtime(now))}
