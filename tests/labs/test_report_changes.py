"""What becomes of uploads is told to pages that stand open."""

from __future__ import annotations

import uuid

import pytest

from backoffice.core import changes
from backoffice.models import Change
from labs.models import Report
from tests.api.rows import uid

pytestmark = pytest.mark.django_db


def uploads(number: int) -> list[Report]:
    return [
        Report(user_id=uid("patient", 1) if n % 2 else None, form_id=uuid.uuid4())
        for n in range(number)
    ]


def test_an_upload_names_itself_and_its_patient() -> None:
    Report.objects.bulk_create(made := uploads(2))
    told = Change.objects.get()
    assert (told.topic, told.rows) == ("labs_report", 2)
    assert set(told.subjects or ()) == {uid("patient", 1), *(one.pk for one in made)}


def test_of_many_at_once_there_is_only_their_number() -> None:
    Report.objects.bulk_create(uploads(changes.MAX_NAMED_ROWS + 1))
    told = Change.objects.get()
    assert (told.rows, told.subjects) == (changes.MAX_NAMED_ROWS + 1, None)
    Report.objects.update(attempts=1)
    assert Change.objects.latest("pk").subjects is None
