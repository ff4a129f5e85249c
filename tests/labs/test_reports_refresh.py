"""What was ticked and typed on the pages of reports outlives every refresh of a part of them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.models import User
from labs.models import Report, RowCheck
from tests.dom import Page
from tests.labs.reporting import ADA, file, kept, with_job
from tests.labs.test_reports_pages import HX, doctor, report, row_address, row_form
from tests.labs.test_reports_upload import JSON, address, desk, files_in, form

__all__ = ["desk", "doctor", "files_in", "report"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("folder")]


@pytest.mark.parametrize("ticked", [True, False])
@pytest.mark.parametrize("trigger", ["tick", "correction"])
def test_same_person_tick_is_kept_after_row_check(
    client: Client, doctor: User, trigger: str, ticked: bool
) -> None:
    made = kept(doctor)
    with_job(made, metadata={**ADA, "patient_first_name": "Bea"})
    shown = client.get(reverse("reports:detail", args=[made.pk])).content.decode()
    included = 'hx-include="#seen, #accept-form [name=same_person]"'
    assert shown.count('hx-target="#row-0"') >= shown.count("</tbody>") / 2 and included in shown
    given = row_form(made, value="7")
    if trigger == "tick":
        given = {name: given[name] for name in ("reading", "latest")} | {"checked": "yes"}
    more = {"same_person": "yes"} if ticked else {}
    answer = client.post(row_address(made), {**given, **more}, headers=HX).content.decode()
    page = Page(f'<form id="accept-form" data-here>{answer}</form>', "data-here")
    boxes = [node for node in page.root.walk() if node.given.get("name") == "same_person"]
    assert len(boxes) == 1 and ("checked" in boxes[0].given) == ticked


def test_correction_of_changed_row_is_kept_in_form(client: Client, report: Report) -> None:
    given = row_form(report)
    fields = {
        "test_name": "Glucose, corrected", "value": "6", "units": "mg/dL", "loinc_code": "2339-0",
        "min_reference_range": "1", "max_reference_range": "9",
    }  # fmt: skip
    client.post(row_address(report), {**given, "value": "1"}, headers=HX)
    answer: Any = client.post(row_address(report), {**given, **fields}, headers=HX)
    assert "This row was changed meanwhile" in answer.content.decode()
    page = Page(f"<main>{answer.content.decode()}</main>", "aria-label")
    values = page.values()
    assert {name: values[name][0] for name in fields} == fields
    assert RowCheck.objects.get().corrections == {"value": "1"}
    client.post(row_address(report), {name: found[0] for name, found in values.items()}, headers=HX)
    assert RowCheck.objects.latest("pk").corrections["value"] == "6"


@pytest.mark.parametrize("headers", [{}, JSON], ids=["page", "script"])
def test_upload_again_tick_is_kept_after_refusal(
    client: Client, desk: User, headers: dict[str, str]
) -> None:
    kept(desk)
    sent = form(file(), again="on", review="perhaps")
    answer = client.post(address(), sent, headers=headers)
    refused = answer.content.decode()
    assert "already has this file" not in refused
    assert '<input type="hidden" name="again" value="on">' in refused
    first = client.post(address(), form(file()), headers=headers).content.decode()
    assert 'name="again" value="on">' in first and "checked><span>Upload it once" not in first
