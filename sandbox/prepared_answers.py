"""Prepared answers: the next reads of a path get exactly what `/_control/answers` was given.

Any odd record can so be sent over the wire without teaching the simulation to produce it. Only
reads (GET and HEAD) are answered this way; writes are carried out as ever.
"""

import base64
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase

READS = ("GET", "HEAD")
CONTENT_TYPE = "application/json"


@dataclass(slots=True)
class PreparedAnswer:
    """One answer for the next `times` reads whose path the regular expression `path` finds.

    `body` is sent as JSON, a string as it is, `body_base64` byte for byte. With `merge` the real
    answer is sent with the members of that object laid over its own, at every depth; a list is
    merged when `merge` gives an object whose keys are positions ("0", "1", ...). Only an answer
    with status 200 is merged into. `headers` are set last. `times` null: until taken back.
    """

    path: str
    body: Any = None
    body_base64: str = ""
    merge: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    times: int | None = 1
    served: int = 0

    def __post_init__(self) -> None:
        try:
            re.compile(self.path)
        except re.error as error:
            raise ValueError(f"path is no regular expression: {error}") from None
        if self.merge is not None and (self.body is not None or self.body_base64):
            raise ValueError("an answer has a body or is merged into the real one, not both")

    @property
    def is_spent(self) -> bool:
        return self.times is not None and self.served >= self.times

    def matches(self, request: HttpRequest) -> bool:
        """Return whether `path` matches the request's path, with or without its query."""
        paths = (request.path, request.get_full_path())
        return any(re.search(self.path, path) for path in paths)

    def content(self) -> bytes:
        if self.body_base64:
            return base64.b64decode(self.body_base64)
        if isinstance(self.body, str):
            return self.body.encode()
        return json.dumps(self.body).encode()

    def replace(self, real: HttpResponseBase) -> HttpResponseBase:
        """Return what is sent in place of the `real` answer."""
        if self.merge is None:
            answer: HttpResponseBase = HttpResponse(
                self.content(), status=self.status, content_type=CONTENT_TYPE
            )
        else:
            answer = real
            if isinstance(real, HttpResponse) and real.status_code == 200:
                real.content = json.dumps(merged(json.loads(real.content), self.merge)).encode()
                if real.has_header("Content-Length"):
                    real["Content-Length"] = str(len(real.content))
        for name, value in self.headers.items():
            answer[name] = value
        return answer

    def report(self) -> dict[str, Any]:
        return {"path": self.path, "times": self.times, "served": self.served}


def merged(real: Any, changes: Mapping[str, Any]) -> Any:
    """Return `real` with `changes` laid over it, at every depth."""
    if isinstance(real, list):
        copy: Any = list(real)
        keys: dict[str, Any] = {name: int(name) for name in changes}
    else:
        copy = dict(real) if isinstance(real, dict) else {}
        keys = {name: name for name in changes}
    for name, value in changes.items():
        key = keys[name]
        there = copy[key] if isinstance(copy, list) else copy.get(key)
        nested = isinstance(value, dict) and isinstance(there, dict | list)
        copy[key] = merged(there, value) if nested else value
    return copy


class PreparedAnswers:
    """The answers in force, in the order in which they were given."""

    def __init__(self) -> None:
        self._answers: list[PreparedAnswer] = []
        self._lock = threading.Lock()

    def add(self, answer: PreparedAnswer) -> None:
        with self._lock:
            self._answers.append(answer)

    def clear(self) -> None:
        with self._lock:
            self._answers.clear()

    def take(self, request: HttpRequest) -> PreparedAnswer | None:
        """Return the first unspent answer for this read and count it as served."""
        if request.method not in READS:
            return None
        with self._lock:
            for answer in self._answers:
                if not answer.is_spent and answer.matches(request):
                    answer.served += 1
                    return answer
        return None

    def report(self) -> dict[str, Any]:
        with self._lock:
            return {"answers": [answer.report() for answer in self._answers]}


ANSWERS = PreparedAnswers()
