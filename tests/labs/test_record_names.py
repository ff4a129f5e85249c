"""IDs of lab tests, accounts, teams and markers in texts of the service get names."""

from __future__ import annotations

import pytest

from backoffice.outbox.record_names import with_names
from labs.models import LabAccount, LabTest, Marker, Team
from tests.api.rows import envelope, uid

pytestmark = pytest.mark.django_db

TEST, ACCOUNT, TEAM = uid("test", 1), uid("account", 1), uid("team", 1)


@pytest.fixture(autouse=True)
def records() -> None:
    LabTest.objects.create(id=TEST, slug="t", name="Liver Screen", status="active", **envelope())
    LabAccount.objects.create(
        id=ACCOUNT,
        lab="lab-a",
        status="active",
        delegated_flow="not_delegated",
        provider_account_id="NUM-1",
        account_name="Made-up Clinic East",
        **envelope(),
    )
    Team.objects.create(id=TEAM, name="Made-up team")
    for number, name in ((7, "Ferritin"), (12, "Glucose")):
        Marker.objects.create(id=number, name=name, slug=name, **envelope())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"Lab test {TEST} is not available for this lab account",
            f"Lab test Liver Screen ({TEST}) is not available for this lab account",
        ),
        (f"Account {str(ACCOUNT).upper()}: no", f"Account Made-up Clinic East ({ACCOUNT}): no"),
        (f"[{TEAM}]", f"[Made-up team ({TEAM})]"),
        ("Marker 12 cannot be ordered", "Marker Glucose (12) cannot be ordered"),
        ("open (marker 7, question 3)", "open (marker Ferritin (7), question 3)"),
        ("marker_ids: 7, 12, 13 at 5", "marker_ids: Ferritin (7), Glucose (12), 13 at 5"),
        ("Marker ids [12,7]", "Marker ids [Glucose (12),Ferritin (7)]"),
    ],
)
def test_known_ids_in_texts_get_names(text: str, expected: str) -> None:
    [named] = with_names([text])
    assert named.replace(str(ACCOUNT).upper(), str(ACCOUNT)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Line 12 of 7",
        "biomarker12",
        "Markers 99999999999999999999",
        f"Lab test {uid('unknown', 1)}",
    ],
)
def test_texts_without_known_ids_do_not_change(text: str) -> None:
    assert with_names([text]) == [text]
