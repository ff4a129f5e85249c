"""Checked and typed values on report pages survive every refresh of a fragment."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.accounts.models import User
from labs.models import Report, RowCheck
from tests.dom import Page
from tests.labs.report_pages import HTMX_HEADERS, row_address, row_form
from tests.labs.reporting import ADA, attach_job, file, stored_report
from tests.labs.test_reports_upload import JSON, address, form

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("report_folder")]


@pytest.mark.parametrize("is_ticked", [True, False])
@pytest.mark.parametrize("trigger", ["tick", "correction"])
def test_same_person_tick_is_kept_after_row_check(
    client: Client, doctor: User, trigger: str, is_ticked: bool
) -> None:
    created = stored_report(doctor)
    attach_job(created, metadata={**ADA, "patient_first_name": "Bea"})
    shown = client.get(reverse("reports:detail", args=[created.pk])).content.decode()
    included = 'hx-include="#seen, #accept-form [name=same_person]"'
    assert shown.count('hx-target="#row-0"') >= shown.count("</tbody>") / 2 and included in shown
    given = row_form(created, value="7")
    if trigger == "tick":
        given = {name: given[name] for name in ("reading", "latest")} | {"checked": "yes"}
    more = {"same_person": "yes"} if is_ticked else {}
    answer = client.post(
        row_address(created), {**given, **more}, headers=HTMX_HEADERS
    ).content.decode()
    page = Page(f'<form id="accept-form" data-here>{answer}</form>', "data-here")
    boxes = [node for node in page.root.walk() if node.given.get("name") == "same_person"]
    assert len(boxes) == 1 and ("checked" in boxes[0].given) == is_ticked


def test_correction_of_changed_row_is_kept_in_form(client: Client, report: Report) -> None:
    given = row_form(report)
    fields = {
        "test_name": "Glucose, corrected", "value": "6", "units": "mg/dL", "loinc_code": "2339-0",
        "min_reference_range": "1", "max_reference_range": "9",
    }  # fmt: skip
    client.post(row_address(report), {**given, "value": "1"}, headers=HTMX_HEADERS)
    answer: Any = client.post(row_address(report), {**given, **fields}, headers=HTMX_HEADERS)
    assert "This row changed in the meantime" in answer.content.decode()
    page = Page(f"<main>{answer.content.decode()}</main>", "aria-label")
    values = page.values()
    assert {name: values[name][0] for name in fields} == fields
    assert RowCheck.objects.get().corrections == {"value": "1"}
    client.post(
        row_address(report),
        {name: found[0] for name, found in values.items()},
        headers=HTMX_HEADERS,
    )
    assert RowCheck.objects.latest("pk").corrections["value"] == "6"


@pytest.mark.parametrize("headers", [{}, JSON], ids=["page", "script"])
def test_upload_again_tick_is_kept_after_refusal(
    client: Client, front_desk_user: User, headers: dict[str, str]
) -> None:
    stored_report(front_desk_user)
    sent = form(file(), again="on", review="perhaps")
    answer = client.post(address(), sent, headers=headers)
    refused = answer.content.decode()
    assert "already uploaded for this patient" not in refused
    assert '<input type="hidden" name="again" value="on">' in refused
    first = client.post(address(), form(file()), headers=headers).content.decode()
    assert 'name="again" value="on">' in first and "checked><span>Upload it once" not in first
