"""Idempotency keys: a repeated request gets the stored answer and is not carried out again
(orders.md 2.1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.db import connection, transaction
from django.http import HttpResponse

from sandbox import clock
from sandbox.api.calls import ApiRequest
from sandbox.api.errors import Invalid, Refusal, malformed
from sandbox.api.params import OneOf, Text
from sandbox.api.responses import error_response, json_bytes_response
from sandbox.models import IdempotentOutcome

KEY = "X-Idempotency-Key"
ERRORS = "X-Idempotency-Error"
KEPT = timedelta(hours=24)
_KEY_KIND = Text(min_length=1, max_length=255)
_ERRORS_KIND = OneOf(("no-cache",))


def run_once(
    api_request: ApiRequest, call: str, work: Callable[[], HttpResponse], kept: timedelta = KEPT
) -> HttpResponse:
    """Return the answer of `work`, or that of an earlier request with the same key.

    Call it after checking the parameters: earlier refusals are not stored. `work` runs in a
    transaction; a refusal rolls it back and is stored too, unless the caller says `no-cache` or it
    is a 422. Requests that come during the first one with their key are refused with 409.
    """
    key, keeps_failures = _headers(api_request)
    if key is None:
        with transaction.atomic():
            return work()
    with transaction.atomic():
        if not _reserve(f"{api_request.caller.team}|{call}|{key}"):
            raise Refusal(409, "A request with this idempotency key is being carried out")
        outcomes = IdempotentOutcome.objects.filter(
            team_id=api_request.caller.team, call=call, key=key
        )
        now = clock.now()
        known = outcomes.filter(created_at__gt=now - kept).first()
        if known is not None:
            return json_bytes_response(bytes(known.body), known.status)
        outcomes.delete()
        try:
            with transaction.atomic():
                answer = work()
        except Refusal as refusal:
            if refusal.status == 422:
                raise
            answer = error_response(refusal.status, refusal.detail)
        if keeps_failures or answer.status_code < 400:
            IdempotentOutcome.objects.create(
                team_id=api_request.caller.team,
                call=call,
                key=key,
                status=answer.status_code,
                body=answer.content,
                created_at=now,
            )
        return answer


def key_of(api_request: ApiRequest) -> str | None:
    """Return the key of the request; refuse an invalid one with 422."""
    given = api_request.request.headers.get(KEY)
    if given is not None:
        try:
            _KEY_KIND.parse(given)
        except Invalid as invalid:
            raise malformed(["header", KEY], invalid, given) from None
    return given


def _headers(api_request: ApiRequest) -> tuple[str | None, bool]:
    """The key, and whether failures are stored."""
    key, errors = key_of(api_request), api_request.request.headers.get(ERRORS)
    if errors is not None:
        try:
            _ERRORS_KIND.parse(errors)
        except Invalid as invalid:
            raise malformed(["header", ERRORS], invalid, errors) from None
    return key, errors is None


def _reserve(name: str) -> bool:
    """Lock the key until the transaction ends; return False if another request has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", [name])
        return bool(cursor.fetchone()[0])
