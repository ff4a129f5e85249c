"""Forms of team work as pages show them."""

from __future__ import annotations

import html
import re
from typing import Any

from django.http import HttpResponse
from django.template import engines
from django.test import Client, RequestFactory

from backoffice.accounts.models import User
from backoffice.team.subjects import make_subject
from tests.api.rows import uid

ORDER = uid("order", 1)
PATIENT = uid("patient", 1)
SIGNED_SUBJECT = re.compile(r'name="about" value="([^"]+)"')


def render_tag(user: User, tag: str, path: str = "/orders/") -> str:
    """Render what a template function of `team` makes for a user."""
    request = RequestFactory().get(path)
    request.user = user
    template = engines["jinja2"].from_string("{{ " + tag + " }}")
    return template.render({"order": ORDER, "patient": PATIENT}, request)


def form_subject(user: User, tag: str = 'notes_on("order", order, patient)') -> str:
    found = SIGNED_SUBJECT.search(render_tag(user, tag))
    assert found, "no form"
    return html.unescape(found[1])


def signed_subject(subject_type: str = "order", subject_id: object = ORDER) -> str:
    return make_subject(subject_type, subject_id, PATIENT).signed()


def post(client: Client, name: str, htmx: bool = False, **values: Any) -> HttpResponse:
    headers = {"HX-Request": "true"} if htmx else {}
    data = {"about": signed_subject(), "next": "/orders/", **values}
    return client.post(f"/team/{name}/", data, headers=headers)  # type: ignore[return-value]
