"""Log lines as JSON, without personal data.

A line has time, level, logger, process, message, the id of the request it belongs to, and in a
worker the task. Django's messages about requests (refused, not found, failed) are replaced by
method, route and status, because they contain paths and hosts. An exception is written as its class
and our own frames, never as its text: the text of a database, parser or HTTP error quotes the row.
"""

import json
import logging
import re
import traceback
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from celery import current_task
from django.http import HttpRequest

from backoffice.core import request_ids

ROOT = str(Path(__file__).resolve().parents[2])


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": _message(record),
        }
        # Django logs the end of a request after the middleware has reset the current id.
        request_id = (
            request_ids.request_id_of(getattr(record, "request", None)) or request_ids.current.get()
        )
        if request_id:
            line["request_id"] = request_id
        if current_task:
            line["task"] = f"{current_task.name} {current_task.request.id}"
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["frames"] = [
                f"{frame.filename.removeprefix(ROOT).lstrip('/')}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(record.exc_info[2])
                if frame.filename.startswith(ROOT) and "site-packages" not in frame.filename
            ]
        return json.dumps(line, ensure_ascii=False, default=str)


def _message(record: logging.LogRecord) -> str:
    if record.name == "celery.app.trace":
        # Celery formats the exception and its traceback into the message.
        data = getattr(record, "data", {})
        return f"task {data.get('name', '?')} {data.get('id', '?')} {record.levelname.lower()}"
    if record.name.startswith(REQUEST_LOGGERS):
        return _request_message(record)
    message = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        for text in (repr(error), str(error)):
            if text:
                message = message.replace(text, type(error).__name__)
    return _ADDRESS.sub(r"\1/…", message)


REQUEST_LOGGERS: Final = ("django.request", "django.security", "django.server")
_ADDRESS: Final = re.compile(r"""(?<![^\s"'(=])(https?://[^\s"'/?#]+)?/[^\s"']*""")
"""An address, whose host may be logged, or a path; with or without a query."""


def _request_message(record: logging.LogRecord) -> str:
    """Return a message such as `Forbidden: GET orders:detail 403`."""
    status = getattr(record, "status_code", None)
    request = getattr(record, "request", None)
    if record.name == "django.security.csrf":
        return f"CSRF check failed: {_method_and_route(request)}"
    try:
        message = HTTPStatus(status).phrase if status else "Request refused"
    except ValueError:
        message = "Request refused"
    return f"{message}: {_method_and_route(request)} {status or ''}".rstrip(": ")


def _method_and_route(request: object) -> str:
    if not isinstance(request, HttpRequest):
        return ""
    method = request.method if request.method in request_ids.METHODS else "other"
    return f"{method} {request_ids.route_name(request)}"
