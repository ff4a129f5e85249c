"""Request ids: one per request, ours, and the same wherever it is written down."""

from __future__ import annotations

import json
import logging

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client

from backoffice.logs import JsonFormatter
from backoffice.requests import identified

CANARY = "from-outside"


def test_every_answer_has_an_id_of_its_own(client: Client) -> None:
    ids = [client.get(path)["X-Request-ID"] for path in ("/health/live", "/health/live", "/none/")]
    assert len(set(ids)) == 3
    assert all(len(each) == 32 for each in ids)


def test_an_id_from_outside_is_not_taken(client: Client) -> None:
    answer = client.get("/health/live", headers={"X-Request-ID": CANARY})
    assert answer["X-Request-ID"] != CANARY


def test_log_lines_carry_it(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(JsonFormatter())

    def view(request: HttpRequest) -> HttpResponse:
        logging.getLogger("backoffice").info("inside")
        return HttpResponse()

    with caplog.at_level(logging.INFO):
        inside = identified(view)(HttpRequest()).headers["X-Request-ID"]
        logging.getLogger("backoffice").info("outside")
        missing = client.post("/health/live").headers["X-Request-ID"]
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    told = {line["message"].split(":")[0]: line.get("request_id") for line in lines}
    assert told["inside"] == inside
    assert told["outside"] is None
    assert told["Method Not Allowed (POST)"] == missing


def test_it_is_gone_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        identified(view)(HttpRequest())
    caplog.handler.setFormatter(JsonFormatter())
    with caplog.at_level(logging.INFO):
        logging.getLogger("backoffice").info("after")
    assert "request_id" not in json.loads(caplog.text)
