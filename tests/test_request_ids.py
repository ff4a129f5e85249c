"""Request IDs: one per request, made here, and the same in all records."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from pytest_django import Settings

from backoffice.core.logs import JsonFormatter
from backoffice.core.request_ids import assign_request_id

CANARY = "from-outside"


def test_every_response_has_its_own_id(client: Client) -> None:
    ids = [client.get(path)["X-Request-ID"] for path in ("/health/live", "/health/live", "/none/")]
    assert len(set(ids)) == 3
    assert all(len(each) == 32 for each in ids)


def test_id_from_outside_is_ignored(client: Client) -> None:
    answer = client.get("/health/live", headers={"X-Request-ID": CANARY})
    assert answer["X-Request-ID"] != CANARY


def test_log_lines_contain_request_id(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(JsonFormatter())

    def view(request: HttpRequest) -> HttpResponse:
        logging.getLogger("backoffice").info("inside")
        return HttpResponse()

    with caplog.at_level(logging.INFO):
        inside = assign_request_id(view)(HttpRequest()).headers["X-Request-ID"]
        logging.getLogger("backoffice").info("outside")
        missing = client.post("/health/live").headers["X-Request-ID"]
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    request_ids = {line["message"].split(":")[0]: line.get("request_id") for line in lines}
    assert request_ids["inside"] == inside
    assert request_ids["outside"] is None
    assert request_ids["Method Not Allowed"] == missing


def test_request_id_is_reset_after_error(caplog: pytest.LogCaptureFixture) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        assign_request_id(view)(HttpRequest())
    caplog.handler.setFormatter(JsonFormatter())
    with caplog.at_level(logging.INFO):
        logging.getLogger("backoffice").info("after")
    assert "request_id" not in json.loads(caplog.text)


SENT_TEXT = "CANARY-that-was-typed"


@pytest.mark.django_db
def test_log_contains_routes_but_no_sent_text(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.setFormatter(JsonFormatter())
    headers = {
        "Referer": f"https://elsewhere.invalid/{SENT_TEXT}",
        "Origin": f"https://{SENT_TEXT}",
    }
    with caplog.at_level(logging.INFO):
        client.get(f"/nowhere/{SENT_TEXT}/?q={SENT_TEXT}")
        client.get(f"/accounts/password/new/{SENT_TEXT}/{SENT_TEXT}/")
        client.post(f"/health/live?{SENT_TEXT}", {"name": SENT_TEXT}, headers=headers)
        client.get("/health/live", headers={"Host": f"{SENT_TEXT}.invalid"})
        Client(enforce_csrf_checks=True).post(
            f"/accounts/login/?next=/{SENT_TEXT}", {"login": SENT_TEXT}, headers=headers
        )
    messages = [json.loads(line)["message"] for line in caplog.text.splitlines()]
    assert "Not Found: GET unmatched 404" in messages
    assert any(message.startswith("Method Not Allowed: POST health") for message in messages)
    assert "CSRF check failed: POST login" in messages
    assert SENT_TEXT.lower() not in caplog.text.lower()


@pytest.mark.parametrize("behind_proxy", [True, False])
def test_proxy_gets_route_for_its_log(
    client: Client, settings: Settings, behind_proxy: bool
) -> None:
    settings.BEHIND_PROXY = behind_proxy
    answer = client.get("/health/live")
    assert answer.headers.get("X-Route") == ("health-live" if behind_proxy else None)
    nginx = (Path(__file__).parents[1] / "deploy/proxy/nginx.conf").read_text()
    assert "proxy_hide_header X-Route;" in nginx
    (log_format,) = re.findall(r"log_format plain '(.+?)'", nginx)
    assert "$upstream_http_x_route" in log_format
    assert not re.search(r"\$(uri|request|request_uri|args|query_string|http_\w+)\b", log_format)
