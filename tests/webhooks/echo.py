"""Answers with the request as WSGI has it: straight, and behind `buffering.Web`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
import django

django.setup()

from backoffice.operations import request_buffer  # noqa: E402 - needs the apps

LONG = 300_000
SHOWN = (
    *("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL"),
    *("REMOTE_ADDR", "CONTENT_TYPE", "CONTENT_LENGTH", "wsgi.url_scheme"),
)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """`/long` streams an answer, `/broken` raises."""
    if environ["PATH_INFO"] == "/broken":
        raise ValueError("made up")
    start_response("200 OK", [("Content-Type", "application/json"), ("Set-Cookie", "a=b")])
    if environ["PATH_INFO"] == "/long":
        return (b"x" * 1000 for _ in range(LONG // 1000))
    content = environ["wsgi.input"].read().decode("latin-1")
    shown = {name: environ[name] for name in environ if name.startswith("HTTP_") or name in SHOWN}
    return [json.dumps({**shown, "content": content}).encode()]


web = request_buffer.Web(application)
