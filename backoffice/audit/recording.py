"""Who saw and who changed what. The only writer of `AuditEntry`.

An entry is committed before the first byte of the page leaves; when it cannot be written the page
is not shown (`AuditUnavailable`, answered 503). Lists leave one entry with the ids shown, never
the words searched for.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest
from rest_framework.exceptions import APIException

from backoffice.audit.models import AuditEntry
from backoffice.core import changes, prepared_queries, request_ids
from backoffice.models import User


class AuditUnavailable(APIException):
    """The audit trail could not be written, so nothing may be shown."""

    status_code = 503
    default_detail = "This cannot be shown now because the access log cannot be written."
    default_code = "audit_unavailable"


def kind_words(kind: str) -> str:
    """What a kind is called; that of a request is written `lab_account.allowlist`."""
    return kind.replace("_", " ").replace(".", " ").capitalize()


def record(
    request: HttpRequest,
    action: str,
    object_type: str,
    *,
    ids: Iterable[object] = (),
    patients: Iterable[UUID | None] = (),
    outcome: str = "ok",
    reason: str = "",
    row_count: int | None = None,
) -> None:
    """Write one entry and commit it. Raises AuditUnavailable when that fails.

    `action` is one of `ACTIONS`. Must be called outside any open transaction: a rolled-back page
    must not take its entry with it.
    """
    entry = _entry(
        request,
        action,
        object_type,
        ids=ids,
        patients=patients,
        outcome=outcome,
        reason=reason,
        row_count=row_count,
    )
    try:
        with _alone():
            _write(entry)
    except DatabaseError as error:
        raise AuditUnavailable from error


ACTIONS: Final = {
    "view": "Opened",
    "list": "Saw in a list",
    "search": "Found by searching",
    "export": "Downloaded",
    "print": "Printed",
    "change": "Changed",
    "login": "Logged in",
    "denied": "Was refused",
}
"""What somebody did, in words."""
LETTERS: Final = 20_000
"""Of what a change says it changed, before and after each."""

_COLUMNS: Final = (
    *("actor_id", "actor_kind", "action", "object_type", "object_ids", "patient_ids", "route"),
    *("request_id", "ip", "outcome", "reason", "row_count", "before", "after"),
)
_INSERT: Final = (
    f"INSERT INTO {AuditEntry._meta.db_table} ({', '.join(_COLUMNS)})"  # noqa: S608 - our names
    f" VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
)


def _alone() -> contextlib.AbstractContextManager[None]:
    """Where no transaction is open a statement commits by itself; an open one is refused."""
    if connection.in_atomic_block:
        return transaction.atomic(durable=True)
    return contextlib.nullcontext()


def _write(entry: AuditEntry) -> None:
    """Every page waits for this: what `save` does around the statement takes twice its time."""
    given = {name: getattr(entry, name) for name in _COLUMNS}
    for name in ("object_ids", "patient_ids"):
        given[name] = prepared_queries.array(given[name])
    for name in ("before", "after"):
        given[name] = _json(given[name])
    with prepared_queries.cursor() as cursor:
        cursor.execute(_INSERT, list(given.values()))


def asked(
    request: HttpRequest,
    kind: str,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
    reason: str = "",
) -> None:
    """A command of `kind` is recorded or decided on. In the caller's transaction: both or none."""
    _change(_entry(request, "change", kind, ids=ids, patients=patients, reason=reason))


def changed(
    request: HttpRequest,
    kind: str,
    ids: Iterable[object],
    *,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    patients: Iterable[UUID | None] = (),
    reason: str = "",
) -> None:
    """Something of `kind` is changed here, from `before` to `after`: of both, what differs is kept.

    In the caller's transaction: both or none. Values are whatever JSON can say, and times, ids.
    Raises ValueError for more than `LETTERS`, which is no change that a person can look at.
    """
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    entry = _entry(request, "change", kind, ids=ids, patients=patients, reason=reason)
    if names:
        entry.before = {name: before[name] for name in names if name in before}
        entry.after = {name: after[name] for name in names if name in after}
    _change(entry)


def followed(
    actor: User, kind: str, ids: Iterable[object], patients: Iterable[UUID | None]
) -> None:
    """A command of `kind` follows one that `actor` asked for. In the caller's transaction."""
    _change(
        AuditEntry(
            actor=actor,
            action="change",
            object_type=kind,
            object_ids=[str(key) for key in ids],
            patient_ids=_known(patients),
        )
    )


def by_machine(kind: str, ids: Iterable[object], reason: str = "") -> None:
    """A change that somebody at the machine made with `manage.py`. In the caller's transaction."""
    keys = [str(key) for key in ids]
    entry = AuditEntry(
        actor_kind="machine", action="change", object_type=kind, object_ids=keys, reason=reason
    )
    _change(entry)


def _change(entry: AuditEntry) -> None:
    """Keep it, and tell pages that stand open."""
    _write(entry)
    subjects = set(entry.patient_ids)
    for key in entry.object_ids:
        with contextlib.suppress(ValueError):
            subjects.add(UUID(key))
    changes.record_change(entry.object_type[:40], subjects)


def viewed(
    request: HttpRequest,
    object_type: str,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
) -> None:
    """A page about one thing (or one thing and its siblings) is about to be shown."""
    record(request, "view", object_type, ids=ids, patients=patients)


def listed(
    request: HttpRequest,
    object_type: str,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
    *,
    searched: bool = False,
) -> None:
    """A page of a list is about to be shown; `searched` when it answers words typed by staff."""
    shown = list(ids)
    action = "search" if searched else "list"
    record(request, action, object_type, ids=shown, patients=patients, row_count=len(shown))


def denied(request: HttpRequest, permission: str) -> None:
    """Someone known asked for what their roles do not grant."""
    record(request, "denied", "permission", ids=[permission], outcome="refused")


def signed_in(request: HttpRequest) -> None:
    """`request.user` has just logged in."""
    record(request, "login", "session")


def sign_in_refused(request: HttpRequest, reason: str = "") -> None:
    """A log-in failed. What was typed is not kept: it may be a password in the wrong box."""
    record(request, "login", "session", outcome="refused", reason=reason)


def _known(patients: Iterable[UUID | None]) -> list[UUID]:
    return sorted({key for key in patients if key is not None}, key=attrgetter("int"))


def _entry(
    request: HttpRequest,
    action: str,
    object_type: str,
    *,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
    outcome: str = "ok",
    reason: str = "",
    row_count: int | None = None,
) -> AuditEntry:
    user = request.user if isinstance(request.user, User) else None
    match = request.resolver_match
    return AuditEntry(
        actor=user,
        actor_kind=_kind(request, user),
        action=action,
        object_type=object_type,
        object_ids=[str(key) for key in ids],
        patient_ids=_known(patients),
        route=(match.view_name if match else "")[:100],
        request_id=request_ids.request_id_of(request),
        ip=request_ids.client_address(request),
        outcome=outcome,
        reason=reason,
        row_count=row_count,
    )


def _json(said: Any) -> str | None:
    if said is None:
        return None
    text = json.dumps(said, cls=DjangoJSONEncoder, ensure_ascii=False)
    if len(text) > LETTERS:
        raise ValueError(f"a change of more than {LETTERS} letters")
    return text


def _kind(request: HttpRequest, user: User | None) -> str:
    if user is None:
        return "anonymous"
    return "token" if getattr(request, "auth", None) else "staff"
