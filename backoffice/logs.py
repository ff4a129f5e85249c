"""Log lines as JSON, without personal data.

A line holds time, level, logger, process, message, the id of the request it belongs to, and in a
worker the task. An exception is written as its class and our own frames, never as its text: the
text of a database, parser or HTTP error quotes the row.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path

from celery import current_task

from backoffice import requests

ROOT = str(Path(__file__).resolve().parent.parent)


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
        # Django says how a request ended after the middleware is left.
        request_id = requests.id_of(getattr(record, "request", None)) or requests.current.get()
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
    message = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        for said in (repr(error), str(error)):
            if said:
                message = message.replace(said, type(error).__name__)
    return _without_queries(message)


def _without_queries(message: str) -> str:
    """The message with the query string cut from every address in it."""
    return " ".join(
        word.partition("?")[0] + "?…" if "/" in word.partition("?")[0] and "?" in word else word
        for word in message.split(" ")
    )
