"""Helpers for tests of report pages."""

from __future__ import annotations

from typing import Any

from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from labs.models import Report
from labs.reports import acceptance, review

HTMX_HEADERS = {"HX-Request": "true"}


def detail_page(client: Client, report: Report) -> str:
    answer = client.get(reverse("reports:detail", args=[report.pk]))
    assert answer.status_code == 200
    return str(answer.content.decode())


def row_address(report: Report, position: int = 0) -> str:
    return reverse("reports:row", args=[report.pk, position])


def row_form(report: Report, position: int = 0, **values: Any) -> dict[str, Any]:
    """Return the correction form as the page would send it."""
    line = review.reviewed_row(Report.objects.get(pk=report.pk), position)
    assert line is not None
    shown = {name: "" if value is None else value for name, value in line.values.items()}
    return {
        **shown,
        "reading": line.reading,
        "latest": line.latest,
        "correct": "1",
        **values,
    }


def message_texts(answer: Any) -> str:
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def response_body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def accept(client: Client, report: Report, **more: str) -> Any:
    sent = {"seen": acceptance.page_digest(Report.objects.get(pk=report.pk)), **more}
    return client.post(reverse("reports:accept", args=[report.pk]), sent)
