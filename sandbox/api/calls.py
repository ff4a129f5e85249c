"""A call: one method on one path, its key, its parameters and the view that answers.

The order of checks is the interface's: path and method, then the key (401), then every
parameter at once (422), then the records (403, 404). Each answer carries the sandbox
clock as `Date` and an `x-request-id`.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import format_datetime
from typing import Any, Literal

from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from sandbox import clock
from sandbox.api import auth
from sandbox.api.errors import Problems, Refusal
from sandbox.api.params import Param, Place, Text, Uuid
from sandbox.api.responses import JSON, error_response

logger = logging.getLogger(__name__)

_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """The argument of a view: the caller, the checked parameters by name, the request."""

    caller: auth.Caller
    values: Mapping[str, Any]
    request: HttpRequest

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


View = Callable[[ApiRequest], HttpResponseBase]


@dataclass(frozen=True)
class Call:
    """One operation.

    `places` gives the kinds of path parts that are not uuids; `takes` the schema of the body by
    content type; `produces` the content type of the 200 answer; `key` which key the call
    accepts ("none" for the document itself).
    """

    method: str
    path: str
    view: View
    summary: str
    query: tuple[Param, ...] = ()
    places: Mapping[str, Any] = field(default_factory=dict)
    key: Literal["team", "management", "none"] = "team"
    produces: str = JSON
    deprecated: bool = False
    takes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Place, ...]:
        return tuple(
            Place(name, self.places.get(name, Uuid())) for name in _PART.findall(self.path)
        )

    def read(self, request: HttpRequest, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of all parameters, or raise one refusal that names every problem."""
        problems = Problems()
        values: dict[str, Any] = {}
        for part in self.parts:
            values[part.name] = part.read(given[part.name], problems)
        for param in self.query:
            values[param.name] = param.read(request.GET, problems)
        problems.settle()
        return values

    def answer(self, request: HttpRequest, given: Mapping[str, str]) -> HttpResponseBase:
        caller = auth.check(request, self.key)
        return self.view(ApiRequest(caller, self.read(request, given), request))


def endpoint(calls: Mapping[str, Call]) -> Callable[..., HttpResponseBase]:
    """The Django view of one path, choosing the call by method."""
    allowed = ", ".join(sorted(calls))

    @csrf_exempt
    def respond(request: HttpRequest, **given: str) -> HttpResponseBase:
        call = calls.get(request.method or "")
        try:
            if call is None:
                raise Refusal(405, "Method Not Allowed", {"Allow": allowed})
            answer = call.answer(request, given)
        except Refusal as refusal:
            answer = error_response(refusal.status, refusal.detail)
            for name, value in refusal.headers.items():
                answer[name] = value
        except Exception:
            # The path holds ids only and the query stays out: it may hold a patient's name.
            logger.exception("%s %s failed", request.method, call.path if call else "?")
            answer = error_response(500, "Internal Server Error")
        return stamped(answer)

    return respond


def stamped(answer: HttpResponseBase) -> HttpResponseBase:
    """Return the answer with the headers that every answer has."""
    try:
        now = clock.now()
    except (DatabaseError, ObjectDoesNotExist):
        now = clock.real_now()  # There is no world: the answer reports that error.
    answer["Date"] = format_datetime(now, usegmt=True)
    answer["x-request-id"] = uuid.uuid4().hex
    answer["Cache-Control"] = "no-store"
    return answer


ANY_TEXT = Text(min_length=1)
