"""Deliveries straight from the server: the view, without the middleware that pages need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from django.core.handlers.wsgi import WSGIRequest

from webhooks.views import receive

DOORS: Final = frozenset({"/webhooks", "/webhooks/"})


def deliveries(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    response = receive(WSGIRequest(environ))
    start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
    return [response.content]
