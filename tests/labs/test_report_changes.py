"""Changes of uploads are recorded for open pages."""

from __future__ import annotations

import uuid

import pytest

from backoffice.core import live_changes
from backoffice.core.models import Change
from labs.models import Report
from tests.api.rows import uid

pytestmark = pytest.mark.django_db


def unsaved_reports(number: int) -> list[Report]:
    return [
        Report(user_id=uid("patient", 1) if n % 2 else None, form_id=uuid.uuid4())
        for n in range(number)
    ]


def test_change_names_reports_and_patients() -> None:
    Report.objects.bulk_create(reports := unsaved_reports(2))
    change = Change.objects.get()
    assert (change.topic, change.rows) == ("labs_report", 2)
    assert set(change.subjects or ()) == {uid("patient", 1), *(report.pk for report in reports)}


def test_change_of_many_reports_has_only_their_number() -> None:
    Report.objects.bulk_create(unsaved_reports(live_changes.MAX_NAMED_ROWS + 1))
    change = Change.objects.get()
    assert (change.rows, change.subjects) == (live_changes.MAX_NAMED_ROWS + 1, None)
    Report.objects.update(attempts=1)
    assert Change.objects.latest("pk").subjects is None
